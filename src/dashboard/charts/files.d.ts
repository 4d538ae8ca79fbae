/** The drawings as files of the build: Vite gives their addresses. */
declare module '*.svg?url' {
  export const address: string;
  // biome-ignore lint/style/noDefaultExport: the form that Vite gives it.
  export default address;
}
