/** Who uses the service: accounts, projects, tokens, mails, and what operators see of them. */
import { runTogether } from '../fixtures/together.ts';

await runTogether(
  'test/auth/*.test.ts',
  'test/http/account.test.ts',
  'test/http/user.test.ts',
  'test/http/tokens.test.ts',
  'test/http/projects.test.ts',
  'test/http/upload.test.ts',
  'test/http/operator.test.ts',
  'test/mail/*.test.ts',
  'test/operator/*.test.ts',
);
