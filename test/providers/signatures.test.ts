/** Signatures of callbacks: vectors that are known to be true, and everything near them that must be refused. */
import t from 'tap';
import { verifyFal, verifyReplicate } from '../../src/providers/signatures.ts';

const now = 1767225600_000;

const replicateVectors = {
  'the wire formats': {
    secret: 'whsec_cmVwbGljYXRlLXRlc3Qtc2VjcmV0LTMyLWJ5dGVzISE=',
    id: 'msg_2test',
    timestamp: '1767225600',
    signatures: 'v1,k78UJDoKTpwC6auyngHMGTB3WnjYwZhkeHvNVmFie/I=',
    body: '{"id":"p1","status":"succeeded","output":"https://replicate.delivery/x/out.mp4"}',
  },
  // replicate/replicate-python:tests/test_webhooks.py
  'Replicate’s own client': {
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: '1614265330',
    signatures: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    body: '{"test": 2432232314}',
  },
};

for (const [source, { secret, body, ...headers }] of Object.entries(replicateVectors)) {
  t.test(`Replicate’s vector of ${source} is accepted, and nothing that differs from it`, async (t) => {
    const given = { ...headers, body: Buffer.from(body) };
    const sentAt = Number(given.timestamp) * 1000;
    t.ok(verifyReplicate(given, secret, sentAt));
    t.ok(verifyReplicate(given, secret, sentAt + 299_000), 'five minutes are allowed');
    t.ok(
      verifyReplicate({ ...given, signatures: `v1,AAAA ${given.signatures}` }, secret, sentAt),
      'one of several',
    );

    const signature = given.signatures.slice(3);
    const mutations = {
      'another id': { ...given, id: `${given.id}s` },
      'no id': { ...given, id: '' },
      'another time': { ...given, timestamp: String(Number(given.timestamp) + 1) },
      'no time': { ...given, timestamp: '' },
      'a time with a sign': { ...given, timestamp: `+${given.timestamp}` },
      'a time in words': { ...given, timestamp: 'now' },
      'another version': { ...given, signatures: `v2,${signature}` },
      'no version': { ...given, signatures: signature },
      'a version twice': { ...given, signatures: `v1,v1,${signature}` },
      'no signature': { ...given, signatures: '' },
      'a cut signature': { ...given, signatures: given.signatures.slice(0, -4) },
      'a longer signature': { ...given, signatures: `${given.signatures}AAAA` },
      'a signature in another alphabet': { ...given, signatures: given.signatures.replace('/', '_') },
      'a changed end': { ...given, signatures: given.signatures.replace(/.=$/, 'J=') },
      'a changed body': { ...given, body: Buffer.from(body.replace(/\d/, '9')) },
      'a longer body': { ...given, body: Buffer.concat([given.body, Buffer.from(' ')]) },
      'no body': { ...given, body: Buffer.alloc(0) },
    };
    for (const [name, mutation] of Object.entries(mutations))
      t.notOk(verifyReplicate(mutation, secret, sentAt), name);
    t.notOk(verifyReplicate(given, secret, sentAt + 301_000), 'too late');
    t.notOk(verifyReplicate(given, secret, sentAt - 301_000), 'too early');
    t.notOk(verifyReplicate(given, 'whsec_', sentAt), 'without a secret');
    t.notOk(
      verifyReplicate(given, 'whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldA==', sentAt),
      'with another secret',
    );
  });
}

t.test('fal’s vector is accepted, and nothing that differs from it', async (t) => {
  const key = { kty: 'OKP', crv: 'Ed25519', x: '6kpsY-KcUgq-9VB7Ey7F-ZVHdq6-vnuSQh7qaRRG0iw' };
  const given = {
    requestId: 'r1',
    userId: 'user_1',
    timestamp: '1767225600',
    signature:
      '0ec6bce2faada5702e215e2e1e4ac47d67e16218ed5675cf8b16acd5d0e06acd4f1e39e0ed19b169b86e14db20a543bbc4c8a25696b284222d6de82139853704',
    body: Buffer.from(
      '{"request_id":"r1","gateway_request_id":"r1","status":"OK","payload":{"video":{"url":"https://v3.fal.media/files/x/out.mp4"}}}',
    ),
  };
  const other = { ...key, x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' };
  t.ok(verifyFal(given, [key], now));
  t.ok(verifyFal(given, [other, { kty: 'RSA' }, key], now), 'by any of the keys');

  const mutations = {
    'another request': { ...given, requestId: 'r2' },
    'no request': { ...given, requestId: '' },
    'another user': { ...given, userId: 'user_2' },
    'another time': { ...given, timestamp: '1767225599' },
    'no time': { ...given, timestamp: '' },
    'a time with a sign': { ...given, timestamp: '+1767225600' },
    'a time in words': { ...given, timestamp: 'now' },
    'no user': { ...given, userId: '' },
    'request and user changed round': { ...given, requestId: 'user_1', userId: 'r1' },
    'fields moved by a line': { ...given, requestId: 'r1\nuser_1', userId: '' },
    'a changed signature': { ...given, signature: given.signature.replace('0e', '0f') },
    'a changed end': { ...given, signature: given.signature.replace(/4$/, '5') },
    'a cut signature': { ...given, signature: given.signature.slice(2) },
    'a longer signature': { ...given, signature: `${given.signature}00` },
    'its halves changed round': {
      ...given,
      signature: given.signature.slice(64) + given.signature.slice(0, 64),
    },
    'another alphabet': { ...given, signature: Buffer.from(given.signature, 'hex').toString('base64') },
    'no signature': { ...given, signature: '' },
    'a signature that is no number': { ...given, signature: given.signature.replace('0', 'g') },
    'a changed body': { ...given, body: Buffer.from(String(given.body).replace('OK', 'ok')) },
    'a longer body': { ...given, body: Buffer.concat([given.body, Buffer.from(' ')]) },
    'no body': { ...given, body: Buffer.alloc(0) },
  };
  for (const [name, mutation] of Object.entries(mutations)) t.notOk(verifyFal(mutation, [key], now), name);
  t.notOk(verifyFal(given, [other], now), 'by another key');
  t.notOk(verifyFal(given, [{ ...key, x: 'AA' }], now), 'by no key at all');
  t.notOk(verifyFal(given, [{ ...key, crv: 'X25519' }], now), 'by a key of another curve');
  t.notOk(verifyFal(given, [], now), 'without a key');
  t.notOk(verifyFal(given, [key], now + 301_000), 'too late');
  t.notOk(verifyFal(given, [key], now - 301_000), 'too early');
});
