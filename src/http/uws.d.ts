/** What the binary of uWebSockets.js 20.30 has and its declarations lack. */
import 'uWebSockets.js';

declare module 'uWebSockets.js' {
  interface TemplatedApp {
    /** `options`: LIBUS_LISTEN_EXCLUSIVE_PORT refuses a port that another process listens on. */
    listen(
      host: RecognizedString,
      port: number,
      options: number,
      callback: (socket: us_listen_socket | false) => void,
    ): TemplatedApp;
    /** Closes every connection and what listens. */
    close(): TemplatedApp;
  }

  const LIBUS_LISTEN_EXCLUSIVE_PORT: number;
}
