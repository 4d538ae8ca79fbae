/** Doctor: MongoDB, NATS, and the clocks of both beside ours. */
import { inspectNats, type NatsFacts } from '../bus/inspect.ts';
import { judgeSync } from '../bus/monitor.ts';
import { inspectMongodb, type MongodbFacts } from '../store/inspect.ts';
import { type Check, type Finding, ok, skipped, trouble, warning } from './doctor.ts';

export type ServerSettings = {
  /** undefined: embedded, and not running. */
  mongodbUrl: string | undefined;
  mongodbDatabase: string;
  natsUrl: string | undefined;
  natsPrefix: string;
  natsReplicas: number;
  natsMonitorUrls: readonly string[] | undefined;
  /** Production on several machines. */
  isSafetyNeeded: boolean;
  isDevelopment: boolean;
};

const membersNeeded = 3;
const minMongodb = [5, 0] as const;
const minNats = [2, 12] as const;
const maxSkewMs = 1_000;
const maxLagMs = 10_000;
const slowMs = 50;
const fullShare = 0.8;
const maxNamed = 8;
const notRunning = 'it is embedded, and the service does not run: start it, or set its URL';

export function serverChecks(settings: ServerSettings): Check[] {
  return [
    {
      name: 'MongoDB',
      cure: 'is it running, is MONGODB_URL right, with the set name and the password, and does a firewall let us through?',
      async look() {
        if (settings.mongodbUrl === undefined) return [trouble(notRunning, 'npm start')];
        return judgeMongodb(await inspectMongodb(settings.mongodbUrl, settings.mongodbDatabase), settings);
      },
    },
    {
      name: 'NATS',
      cure: 'is it running, is NATS_URL right, and does a firewall let us through?',
      async look() {
        if (settings.natsUrl === undefined) return [trouble(notRunning, 'npm start')];
        return judgeNats(await inspectNats(settings.natsUrl, settings.natsPrefix), settings);
      },
    },
    {
      name: 'NATS on disk',
      cure: 'is NATS_MONITOR_URL right?',
      async look() {
        if (settings.natsMonitorUrls === undefined) {
          if (settings.isDevelopment) return [skipped('NATS_MONITOR_URL is not set')];
          return [
            warning(
              'NATS_MONITOR_URL is not set: whether a message is on disk before it is confirmed cannot be seen',
              'set it to the monitoring address of each server, http://host:8222',
            ),
          ];
        }
        const flaw = await judgeSync(settings.natsMonitorUrls);
        return [
          flaw === undefined
            ? ok('messages are on disk before they are confirmed')
            : trouble(flaw, 'jetstream { sync_interval: always } in the configuration of every server'),
        ];
      },
    },
  ];
}

/** What is to be said of a MongoDB. */
export function judgeMongodb(facts: MongodbFacts, { isSafetyNeeded }: ServerSettings): Finding[] {
  return [
    ...judgeMembers(facts, isSafetyNeeded),
    isAtLeast(facts.version, minMongodb)
      ? ok(`version ${facts.version}, answers in ${Math.round(facts.roundTripMs)} ms`)
      : trouble(`version ${facts.version} is too old`, `${minMongodb.join('.')} or later is needed`),
    ...judgeSpeed(facts.roundTripMs),
    ...judgeClock(facts.skewMs, facts.roundTripMs),
    ...judgeData(facts),
  ];
}

function judgeMembers({ setName, isSharded, members, ailing, lagMs }: MongodbFacts, isSafetyNeeded: boolean) {
  if (isSharded) return [ok('a sharded cluster')];
  if (setName === undefined)
    return [
      trouble(
        'it runs standalone',
        'make it a replica set, one member will do: --replSet rs0, then rs.initiate()',
      ),
    ];
  const findings: Finding[] = [ok(`replica set ${setName} of ${members}`)];
  if (isSafetyNeeded && members < membersNeeded)
    findings.push(
      trouble(
        `${members} of the ${membersNeeded} members that production needs: one lost machine stops everything`,
        'rs.add() more, or SINGLE_MACHINE=true if one machine is what you want',
      ),
    );
  if (ailing === undefined)
    findings.push(skipped('how its members are: this user lacks the role clusterMonitor'));
  else if (ailing.length > 0)
    findings.push(
      trouble(`not all members are there: ${ailing.join(', ')}`, 'look at their logs; rs.status()'),
    );
  if ((lagMs ?? 0) > maxLagMs)
    findings.push(
      warning(
        `a member is ${Math.round((lagMs ?? 0) / 1_000)} s behind`,
        'its disk or network is too slow: writes on a majority wait for it when another member is away',
      ),
    );
  return findings;
}

function judgeData({ missingIndexes, data, dataFlaw }: MongodbFacts): Finding[] {
  if (dataFlaw !== undefined) return [trouble(dataFlaw, 'see “Upgrades and backups” in the documentation')];
  const findings: Finding[] = [];
  if (data.toDo.length > 0)
    findings.push(
      warning(
        `the data is of version ${data.version}, this build is for ${data.latest} (${data.toDo.join('; ')})`,
        'the next start does it, or now: npm run admin -- migrate',
      ),
    );
  else findings.push(ok(`data of version ${data.version}`));
  if (missingIndexes.length === 0) findings.push(ok('all indexes are there'));
  else {
    const more = missingIndexes.length > maxNamed ? ` and ${missingIndexes.length - maxNamed} more` : '';
    findings.push(
      warning(
        `${missingIndexes.length} indexes are missing: ${missingIndexes.slice(0, maxNamed).join(', ')}${more}`,
        'the next start of the service makes them; on a big collection choose a quiet hour',
      ),
    );
  }
  return findings;
}

/** What is to be said of a NATS. */
export function judgeNats(facts: NatsFacts, { natsReplicas, isSafetyNeeded }: ServerSettings): Finding[] {
  if (!isAtLeast(facts.version, minNats))
    return [trouble(`version ${facts.version} is too old`, `${minNats.join('.')} or later is needed`)];
  if (!facts.hasJetStream)
    return [trouble('it runs without JetStream', 'start it with -js or jetstream { … }')];
  return [
    ok(`version ${facts.version}, ${facts.servers} known, answers in ${Math.round(facts.roundTripMs)} ms`),
    ...judgeSpeed(facts.roundTripMs),
    ...(facts.skewMs === undefined ? [] : judgeClock(facts.skewMs, facts.roundTripMs)),
    ...judgeSpace(facts),
    ...judgeStreams(facts, natsReplicas, isSafetyNeeded),
  ];
}

function judgeSpace({ storage }: NatsFacts): Finding[] {
  if (storage === undefined || storage.limitBytes <= 0) return [];
  const share = storage.usedBytes / storage.limitBytes;
  const said = `${Math.round(share * 100)} % of the storage of the account is used`;
  if (share < fullShare) return [ok(said)];
  return [trouble(said, 'raise max_file_store or the limit of the account: a full store takes no message')];
}

function judgeStreams({ streams }: NatsFacts, wanted: number, isSafetyNeeded: boolean): Finding[] {
  if (streams.length === 0) return [skipped('its streams: the first start of the service makes them')];
  const findings: Finding[] = streams.flatMap(({ name, replicas, isOnDisk, ailing }) => [
    ...(replicas === wanted
      ? []
      : [
          trouble(
            `stream ${name} has ${replicas} replicas, NATS_REPLICAS is ${wanted}: no process starts`,
            `nats stream edit ${name} --replicas ${wanted}, or set NATS_REPLICAS=${replicas}`,
          ),
        ]),
    ...(isOnDisk ? [] : [trouble(`stream ${name} is kept in memory`, 'delete it: the start makes it again')]),
    ...(ailing.length === 0
      ? []
      : [
          trouble(
            `stream ${name}: ${ailing.join(', ')}`,
            'look at the servers: nats server report jetstream',
          ),
        ]),
  ]);
  if (isSafetyNeeded && wanted < membersNeeded)
    findings.push(warning(`streams have ${wanted} replicas`, `NATS_REPLICAS=${membersNeeded}`));
  if (findings.length > 0) return findings;
  return [ok(streams.map(({ name, messages }) => `${name} ${messages} messages`).join(', '))];
}

function judgeSpeed(ms: number): Finding[] {
  if (ms <= slowMs) return [];
  return [
    warning(`an answer takes ${Math.round(ms)} ms`, 'every step waits for it: run it in the same region'),
  ];
}

function judgeClock(skewMs: number, roundTripMs: number): Finding[] {
  if (Math.abs(skewMs) <= maxSkewMs + roundTripMs / 2) return [];
  const said = `its clock is ${Math.abs(Math.round(skewMs))} ms ${skewMs > 0 ? 'ahead of' : 'behind'} ours`;
  return [warning(said, 'run chrony or another NTP client on both machines')];
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [ofMajor = 0, ofMinor = 0] = version.split('.').map(Number);
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}
