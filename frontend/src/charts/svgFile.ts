/** A drawing that stands on the page as SVG, as a file of its own. */

const HEAD = 44;
const KEY_PX = 6.5;
const FONT = "Inter, system-ui, sans-serif";

export interface Key {
  label: string;
  /** A CSS colour, also var(--token). */
  color: string;
  shape: "line" | "dashed" | "square" | Dot;
}

export type Dot = "circle" | "triangle" | "diamond" | "rect";

/** The outline of a dot in a legend, 8 px wide, about a place. */
export function dotPath(dot: Dot, x: number, y: number): string {
  if (dot === "circle") return `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`;
  if (dot === "triangle") return `M${x} ${y - 4}l4 8h-8z`;
  if (dot === "diamond") return `M${x} ${y - 5}l5 5l-5 5l-5 -5z`;
  return `M${x - 4} ${y - 4}h8v8h-8z`;
}

export interface Picture {
  text: string;
  width: number;
  height: number;
}

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Colours of the page as they are now, in place of the names that only the page knows. */
export function resolved(text: string, read: (name: string) => string): string {
  return text.replace(/var\((--[\w-]+)\)/g, (_, name: string) => read(name).trim() || "#888888");
}

function keysOf(keys: readonly Key[], width: number): string {
  let x = 12;
  let out = "";
  for (const key of keys) {
    const needs = 30 + key.label.length * KEY_PX;
    if (x + needs > width) break;
    if (key.shape === "square") out += `<rect x="${x + 4}" y="27" width="10" height="10" rx="2" fill="${key.color}"/>`;
    else if (key.shape !== "line" && key.shape !== "dashed")
      out += `<path d="${dotPath(key.shape, x + 8, 32)}" fill="${key.color}"/>`;
    else {
      const dashes = key.shape === "dashed" ? ' stroke-dasharray="4 3"' : "";
      out += `<line x1="${x}" x2="${x + 14}" y1="32" y2="32" stroke="${key.color}" stroke-width="2"${dashes}/>`;
    }
    out += `<text x="${x + 20}" y="36" font-size="11" fill="var(--text-2)">${escaped(key.label)}</text>`;
    x += needs;
  }
  return out;
}

/** What stands on the page, with its title and legend above, in the colours of the page. */
export function toPicture(svg: SVGSVGElement, title: string, keys: readonly Key[]): Picture {
  const writer = new XMLSerializer();
  const inner = [...svg.children].map((child) => writer.serializeToString(child)).join("");
  return framed(
    { inner, width: Number(svg.getAttribute("width")), height: Number(svg.getAttribute("height")) },
    title,
    keys,
  );
}

/** A drawing (what is inside of its svg element) with its title and legend above. */
export function framed(
  { inner, width, height: bare }: { inner: string; width: number; height: number },
  title: string,
  keys: readonly Key[],
): Picture {
  const height = bare + HEAD;
  const head = `<text x="12" y="18" font-size="13" font-weight="600" fill="var(--text)">${escaped(title)}</text>`;
  const text =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"` +
    ` viewBox="0 0 ${width} ${height}" font-family="${FONT}">` +
    `<rect width="100%" height="100%" fill="var(--bg)"/>${head}${keysOf(keys, width)}` +
    `<g transform="translate(0 ${HEAD})">${inner}</g></svg>\n`;
  const style = getComputedStyle(document.documentElement);
  return { text: resolved(text, (name) => style.getPropertyValue(name)), width, height };
}

/** As sharp as the screen. null: the browser cannot draw it. */
export async function toPixels({ text, width, height }: Picture): Promise<Blob | null> {
  const image = new Image();
  // Not a blob: the content security policy allows pictures from the server and from data: addresses.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const ratio = window.devicePixelRatio || 1;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  if (!context) return null;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
