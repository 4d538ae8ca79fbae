/** A chat model that looks at pictures (provider wire formats 6): well-behaved, or as a fault says. */
import type { Reply } from './faults.ts';

export function answerChat(body: { model?: string }, fault: string): Reply {
  const verdict = { nsfw: 'nsfw', copyright: 'copyright', unusable: 'unusable' }[fault] ?? 'ok';
  const content = JSON.stringify({
    verdict,
    reason: '',
    prompt: fault === 'no-prompt' ? ' ' : 'gentle camera push-in, steam rises',
    negative_prompt: 'text, warping',
  });
  const shown =
    { fenced: `Here:\n\`\`\`json\n${content}\n\`\`\``, chatter: 'What a nice picture!' }[fault] ?? content;
  const message = {
    role: 'assistant',
    refusal: fault === 'refusal' ? 'I cannot help with that.' : null,
    content: fault === 'refusal' ? null : shown,
  };
  const finish = { filtered: 'content_filter', cut: 'length' }[fault] ?? 'stop';
  return {
    status: 200,
    json: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1767225600,
      model: body.model ?? '',
      choices: [{ index: 0, finish_reason: finish, message }],
      usage: { prompt_tokens: 1200, completion_tokens: 60, total_tokens: 1260 },
    },
  };
}
