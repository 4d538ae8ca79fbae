/**
 * `npm start`: reads the settings, starts the service, stops it on SIGTERM and SIGINT, reads LOG_LEVEL_FILE again on
 * SIGHUP.
 *
 * Exit codes: 0 stopped cleanly, 1 could not start or lost what it needs, 2 a bad setting.
 */
import { ConfigError, describeConfig, readConfig, readLogLevel } from './config.ts';
import { createLog, type Log } from './log.ts';
import { startService } from './service.ts';
import { SecretError } from './store/sealed.ts';

/** A stop that hangs is cut off, in ms (decisions 10, Stopping). */
const stopLimitMs = 10_000;

async function main(): Promise<void> {
  if (process.argv.includes('--help')) {
    console.log(
      `Animated Asset Generation Service\n\nSettings (environment variables):\n${describeConfig()}`,
    );
    return;
  }
  const begunAt = performance.now();
  const config = readConfig();
  const log = createLog(config.logLevel);
  const stopping = (signal: string) => async () => {
    log.info({ signal }, 'stopping');
    setTimeout(() => {
      log.error({}, 'the stop took too long and is cut off');
      process.exit(1);
    }, stopLimitMs).unref();
    await (await starting).stop();
    log.info({}, 'stopped');
    process.exit(0);
  };
  const fail = (cause: Error) => {
    log.fatal({ err: cause }, 'cannot go on');
    process.exitCode = 1;
    void starting.then((service) => service.stop()).finally(() => process.exit(1));
  };
  const starting = startService(config, log, fail);
  process.once('SIGTERM', stopping('SIGTERM'));
  process.once('SIGINT', stopping('SIGINT'));
  const { logLevelFile } = config;
  // Without a file the signal keeps its meaning: the terminal is gone.
  if (logLevelFile !== undefined) process.on('SIGHUP', () => reloadLogLevel(logLevelFile, log));

  const { port } = await starting;
  const roles = config.roles.join(', ');
  log.info({ port, roles: config.roles, ms: Math.round(performance.now() - begunAt) }, 'ready');
  if (!config.isDevelopment) return;
  console.log(`Ready at ${config.baseUrl} (${roles}). Sources may also come from loopback addresses.`);
}

function reloadLogLevel(file: string, log: Log): void {
  try {
    const level = readLogLevel(file);
    log.warn({ from: log.level, to: level }, 'log level');
    log.setLevel(level);
  } catch (err) {
    log.error({ err }, 'the log level stays as it is');
  }
}

main().catch((cause: unknown) => {
  if (cause instanceof ConfigError || cause instanceof SecretError) {
    console.error(cause.message);
    process.exit(2);
  }
  console.error(cause instanceof Error ? cause.message : cause);
  process.exit(1);
});
