/** Components that are drawn again only when what they are given has changed. */
import { Component, type FunctionComponent } from 'preact';

export function memo<Props extends object>(Inner: FunctionComponent<Props>) {
  return class extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const names = Object.keys(next) as (keyof Props)[];
      return names.some((name) => !Object.is(next[name], this.props[name]));
    }

    override render() {
      return <Inner {...this.props} />;
    }
  };
}
