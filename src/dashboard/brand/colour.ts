/** Colours as CSS has them, and how well one reads on another (WCAG 2.2, 1.4.3). */

/** `#rrggbb` of any colour that CSS knows; undefined for what is none. Transparency is dropped. */
export function toHex(text: string): string | undefined {
  if (text.trim() === '' || !CSS.supports('color', text)) return undefined;
  const context = canvasContext();
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  const [red = 0, green = 0, blue = 0] = context.getImageData(0, 0, 1, 1).data;
  return `#${[red, green, blue].map((part) => part.toString(16).padStart(2, '0')).join('')}`;
}

/** 1 to 21; undefined when one of them is no colour. */
export function contrastOf(text: string, ground: string): number | undefined {
  const [a, b] = [toHex(text), toHex(ground)];
  if (a === undefined || b === undefined) return undefined;
  const [high = 0, low = 0] = [luminanceOf(a), luminanceOf(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

let context: CanvasRenderingContext2D | null = null;

function canvasContext(): CanvasRenderingContext2D {
  if (!context) {
    const canvas = document.createElement('canvas');
    canvas.width = 1;
    canvas.height = 1;
    context = canvas.getContext('2d', { willReadFrequently: true });
  }
  if (!context) throw new Error('no canvas');
  return context;
}

function luminanceOf(hex: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5]
    .map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Whether this computer has a family: its letters are then as wide as no stand-in's. */
export function hasFont(family: string): boolean {
  const probe = 'mmmmmmmmmmlliWQ@&1234567890';
  const context = canvasContext();
  const widthOf = (families: string) => {
    context.font = `72px ${families}`;
    return context.measureText(probe).width;
  };
  const name = JSON.stringify(firstFamily(family));
  return ['monospace', 'serif'].some((other) => widthOf(`${name}, ${other}`) !== widthOf(other));
}

/** `"Inter", sans-serif` is about Inter. */
export const firstFamily = (families: string) => (families.split(',')[0] ?? '').replace(/["']/g, '').trim();
