/** Colours for canvas drawing, read from the CSS tokens so that a theme switch is a redraw. */

export interface Palette {
  series: string[];
  text: string;
  text2: string;
  grid: string;
  line: string;
  bad: string;
  bg: string;
  parts: Record<string, string>;
}

export const DASHES: (number[] | undefined)[] = [undefined, [6, 3], [2, 2], [8, 3, 2, 3]];

let known: { scheme: string | null; palette: Palette } | null = null;

/** The colours of the theme that is shown. Looked up once per theme: in the middle of drawing many
 * charts each look would have the browser work out the style of the whole page again. */
export function readPalette(): Palette {
  const scheme = document.documentElement.getAttribute("data-mantine-color-scheme");
  if (known === null || known.scheme !== scheme) known = { scheme, palette: lookUp() };
  return known.palette;
}

function lookUp(): Palette {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim() || "#888888";
  const series = Array.from({ length: 6 }, (_, i) => read(`--series-${i}`));
  return {
    series,
    text: read("--text"),
    text2: read("--text-2"),
    grid: read("--grid"),
    line: read("--line-strong"),
    bad: read("--bad"),
    bg: read("--bg"),
    parts: {
      "time/data_wait_ms": series[1] ?? "",
      "time/host_to_device_ms": read("--part-device"),
      "time/forward_ms": read("--part-forward"),
      "time/backward_ms": series[0] ?? "",
      "comm/exposed_ms": series[2] ?? "",
      "pipeline/bubble_ms": read("--part-bubble"),
      "time/optimizer_ms": series[5] ?? "",
      "time/no_grad_ms": read("--part-no-grad"),
      "time/checkpoint_ms": series[3] ?? "",
      "time/other_ms": series[4] ?? "",
    },
  };
}

/** In which order lines take the hues: neighbours differ in lightness, for readers who cannot tell the hues apart. */
export const SERIES_ORDER = [0, 5, 1, 3, 4, 2] as const;

/** Colour and dash of the n-th line: six hues, then the same dashed, grey beyond 24. */
export function lineStyle(index: number, palette: Palette): { stroke: string; dash?: number[] } {
  if (index >= SERIES_ORDER.length * DASHES.length) return { stroke: palette.line };
  return {
    stroke: palette.series[SERIES_ORDER[index % SERIES_ORDER.length] ?? 0] ?? palette.text,
    dash: DASHES[Math.floor(index / SERIES_ORDER.length)],
  };
}

/** The line of the n-th further run beside the line `index`: the same hue, dashed in another way. */
export const lineOfRun = (index: number, n: number): number =>
  (index + SERIES_ORDER.length * n) % (SERIES_ORDER.length * DASHES.length);

/** "#rrggbb" with an alpha. */
export function alpha(hex: string, opacity: number): string {
  const byte = Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0");
  return /^#[0-9a-f]{6}$/i.test(hex) ? hex + byte : hex;
}
