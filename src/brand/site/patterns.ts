/** Prices, figures and dates as people write them, in any language that uses digits. */

const symbols =
  '[$€£¥₹₩₽₺₴₫฿₦₱₪¢￥]|US\\$|R\\$|C\\$|A\\$|HK\\$|NZ\\$|CHF|Fr\\.|zł|Kč|Ft|lei|лв|kr\\.?|Rp|RM|(?:USD|EUR|GBP|JPY|CAD|AUD|INR|BRL|CNY|SEK|NOK|DKK|PLN|CZK)';
const amount =
  "\\d{1,3}(?:[.,'’\\s\\u00a0\\u202f]\\d{3})*(?:[.,]\\d{1,2})?(?:[.,][-–—]+)?|\\d+(?:[.,]\\d{1,2})?(?:[.,][-–—]+)?";
const period =
  '(?:\\s?(?:/|per|pro|par|al|a|im|je)\\s?(?:user|seat|nutzer|member|person)?\\s?/?\\s?(?:month|mo|monat|mois|mese|mes|mies|miesiąc|maand|year|yr|jahr|anno|an|año|rok|week|day|tag|user|seat|nutzer|h|hour|月|年)\\b\\.?|\\s?[/／]\\s?(?:月|年|人)|\\s?(?:monthly|yearly|monatlich|jährlich|miesięcznie|rocznie))?';
const price = new RegExp(
  `(?:(?<![\\w.])(?:${symbols})\\s?(?:${amount})(?![\\d%])|(?<![\\w.,])(?:${amount})\\s?(?:${symbols}|円|元|원|Euro|ユーロ|ドル)(?![\\p{L}]))${period}`,
  'iu',
);
/** A price that nobody pays any more, or that is saved. */
const former =
  /(?<![\p{L}])(?:statt|instead of|was|save|sparen|worth|over|über|raised|saved|up to|au lieu de|zamiast|invece di)\s*$/iu;

/** The first price in a text, as it is written, with its period. Undefined when there is none: "5 stars" is none. */
export function priceIn(text: string): string | undefined {
  let rest = text.slice(0, 2_000);
  for (let i = 0; i < 5; i += 1) {
    const match = price.exec(rest);
    if (!match) return undefined;
    // "Raised $5M" and "save $20" are figures.
    const after = rest.slice(match.index + match[0].length, match.index + match[0].length + 2);
    if (!former.test(rest.slice(0, match.index)) && !/^\s?[MBmk](?![a-z])|^\+/.test(after))
      return match[0].trim();
    rest = rest.slice(match.index + match[0].length);
  }
  return undefined;
}

/** A number to be proud of: `99.9%`, `10k+`, `1.200`, `24/7`, `3,5 Mio.`, `500万`. */
export function isFigure(text: string): boolean {
  return (
    text.length <= 16 &&
    /^[~≈+<>≥$€£¥]?\s?\d+(?:[.,'’\s\u00a0\u202f]\d{3})*(?:[.,]\d+)?(?:\/\s?\d{1,2})?\s?(?:%|\+|k|m|b|x|×|mio\.?|mrd\.?|million|millionen|billion|tsd\.?|ms|s|h|hrs|tb|gb|mb|万|億|件|社|人|名|年|店舗|店|校|大学|回|台|冊|時間|拠点|か国|ヶ国|カ国|★|⭐|°|stars?|years?|jahre|days?|min|hours?|kg|km|m²|tons?){0,2}\s?\+?$/iu.test(
      text,
    ) &&
    !/^(19|20)\d\d$/.test(text)
  );
}

const months =
  'jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|mrz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|okt(?:ober)?|nov(?:ember)?|dec(?:ember)?|dez(?:ember)?|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro|januari|februari|maart|mei|augustus|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia';
const dates = [
  /\b(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])/,
  /(?:19|20)\d\d年\s?\d{1,2}月(?:\s?\d{1,2}日)?/,
  /\b(?:19|20)\d\d[./](?:0?[1-9]|1[0-2])[./](?:0?[1-9]|[12]\d|3[01])\b/,
  /\b(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|1[0-2])[./](?:19|20)\d\d\b/,
  /\b(?:0?[1-9]|1[0-2])\/(?:0?[1-9]|[12]\d|3[01])\/(?:19|20)\d\d\b/,
  new RegExp(`\\b(?:${months})\\.?\\s+\\d{1,2}(?:st|nd|rd|th)?(?:,|\\s)\\s?(?:19|20)\\d\\d\\b`, 'iu'),
  new RegExp(
    `\\b\\d{1,2}(?:st|nd|rd|th)?\\.?\\s+(?:de\\s+)?(?:${months})\\.?,?\\s+(?:de\\s+)?(?:19|20)\\d\\d\\b`,
    'iu',
  ),
];

/** The first date in a text, as it is written; ISO dates without their time. */
export function dateIn(text: string): string | undefined {
  const head = text.slice(0, 300);
  for (const one of dates) {
    const match = one.exec(head);
    if (match) return match[0];
  }
  return undefined;
}
