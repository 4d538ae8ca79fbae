/** What follows a value: at once when it is there, so that a request of which everything is known costs no promise. */
export function after<Value, Result>(
  value: Value | Promise<Value>,
  then: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(then) : then(value);
}
