/** A chart as a file: the points that are shown, or the picture. */
import type uPlot from "uplot";

import * as format from "../lib/format";
import type { TimeZone } from "../lib/time";
import { cutRange, yRange } from "../lib/series/axis";
import { lay, type Line, type View } from "./series/lines";
import { alpha, lineStyle, type Palette } from "./palette";
import { isUnderTitle, xText } from "./series/plotOptions";
import { roundTicks } from "./series/ticks";

const COLUMNS = ["step", "time_ms", "mean", "min", "max", "last", "count"] as const;

const wire = (value: number): number | string =>
  Number.isFinite(value) ? value : Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
const cells = ({ columns }: Line): Record<(typeof COLUMNS)[number], Float64Array> => ({
  step: columns.step,
  time_ms: columns.timeMs,
  mean: columns.mean,
  min: columns.min,
  max: columns.max,
  last: columns.last,
  count: columns.count,
});
/** A cell of a CSV file. */
export const quoted = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** One line per entry: line, metric, rank (-1: of several), and the columns of the API. */
export function toCsv(lines: readonly Line[]): string {
  const out = [["line", "metric", "rank", ...COLUMNS].join(",")];
  for (const line of lines) {
    const columns = cells(line);
    const head = `${quoted(line.label)},${quoted(line.columns.name)},${line.columns.rank}`;
    for (let i = 0; i < line.columns.step.length; i += 1)
      out.push(`${head},${COLUMNS.map((name) => wire(columns[name][i] ?? Number.NaN)).join(",")}`);
  }
  return `${out.join("\n")}\n`;
}

/** The same as columns; values that are not finite as "NaN", "Infinity" and "-Infinity". */
export function toJson(title: string, lines: readonly Line[]): string {
  const series = lines.map((line) => {
    const columns = cells(line);
    return {
      line: line.label,
      metric: line.columns.name,
      rank: line.columns.rank,
      bucket_steps: line.columns.bucketSteps,
      ...Object.fromEntries(COLUMNS.map((name) => [name, [...columns[name]].map(wire)])),
    };
  });
  return `${JSON.stringify({ title, series }, null, 1)}\n`;
}

export interface Picture {
  title: string;
  metric: string;
  /** What the x axis is of; written at its end. */
  xName: string;
  lines: readonly Line[];
  view: View;
  zone: TimeZone;
  palette: Palette;
  plot: Pick<uPlot, "width" | "height" | "scales" | "valToPos">;
  /** Of the drawing area, in CSS pixels. */
  area: { left: number; top: number; width: number; height: number };
}

const HEAD = 44;
const FONT = 'font-family="Inter, system-ui, sans-serif"';
export const xml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
const px = (value: number): string => value.toFixed(1);
const dashes = (dash: number[] | undefined): string => (dash ? ` stroke-dasharray="${dash.join(" ")}"` : "");

type Values = ArrayLike<number | null | undefined>;
type Place = (value: number) => number;

/** A line through the values: a null breaks it, what is left out does not. */
function pathOf(xs: ArrayLike<number>, values: Values, x: Place, y: Place): string {
  let path = "";
  let pen = "M";
  for (let i = 0; i < xs.length; i += 1) {
    const value = values[i];
    if (value === null) pen = "M";
    if (typeof value !== "number") continue;
    path += `${pen}${px(x(xs[i] ?? 0))} ${px(y(value))}`;
    pen = "L";
  }
  return path;
}

function edge(xs: ArrayLike<number>, values: Values, x: Place, y: Place): string[] {
  const out: string[] = [];
  for (let i = 0; i < xs.length; i += 1) {
    const value = values[i];
    if (typeof value === "number") out.push(`${px(x(xs[i] ?? 0))},${px(y(value))}`);
  }
  return out;
}

/** The legend of a picture: as many keys as fit, each where it stands. */
function keys({
  lines,
  palette,
  plot,
}: Pick<Picture, "lines" | "palette" | "plot">): { line: Line; x: number; stroke: string; dash?: number[] }[] {
  const out = [];
  let x = 12;
  for (const line of lines) {
    const width = 30 + line.label.length * 6.5;
    if (x + width > plot.width) break;
    out.push({ line, x, ...lineStyle(line.color, palette) });
    x += width;
  }
  return out;
}

const SPACE = { left: 56, right: 8, top: 6, bottom: 24 };

/** A picture of lines that are not drawn anywhere, of this size without its head. */
export function pictureOf(
  given: Omit<Picture, "plot" | "area">,
  { width, height }: { width: number; height: number },
): Picture {
  const { lines, view } = given;
  const { data, cut } = lay(lines, view);
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const column of data.slice(1))
    for (const value of column as Iterable<number | null | undefined>)
      if (typeof value === "number") [low, high] = [Math.min(low, value), Math.max(high, value)];
  const [least, most] = high >= low ? [low, high] : [null, null];
  const y = view.y ? cutRange(view.y, least, most, view.logY) : yRange(cut?.[0] ?? least, cut?.[1] ?? most, view.logY);
  const first = data[0][0] ?? 0;
  const last = data[0].at(-1) ?? 1;
  const x: [number, number] =
    last > first ? [first, last] : view.logX ? [first / 2, first * 2] : [first - 0.5, first + 0.5];
  const area = {
    left: SPACE.left,
    top: SPACE.top,
    width: width - SPACE.left - SPACE.right,
    height: height - SPACE.top - SPACE.bottom,
  };
  const share = (value: number, [from, to]: [number, number], log: boolean): number =>
    log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
  return {
    ...given,
    area,
    plot: {
      width,
      height,
      scales: { x: { min: x[0], max: x[1] }, y: { min: y[0], max: y[1] } },
      valToPos: (value, scale) =>
        scale === "x" ? share(value, x, view.logX) * area.width : (1 - share(value, y, view.logY)) * area.height,
    },
  };
}

/** The picture as vectors, with its title and legend; the text stays text. `id` tells it apart from others in one file. */
export function toSvg(picture: Picture, id = "area"): string {
  const { title, metric, lines, view, xName, zone, palette, plot, area } = picture;
  const x = (value: number): number => area.left + plot.valToPos(value, "x");
  const y = (value: number): number => HEAD + area.top + plot.valToPos(value, "y");
  const range = (key: string): [number, number] => [plot.scales[key]?.min ?? 0, plot.scales[key]?.max ?? 1];
  const right = area.left + area.width;
  const bottom = HEAD + area.top + area.height;
  const out: string[] = [];
  const text = (at: [number, number], anchor: string, words: string, more = ""): void =>
    void out.push(
      `<text x="${px(at[0])}" y="${px(at[1])}" text-anchor="${anchor}" font-size="11" fill="${palette.text2}"` +
        ` ${FONT}${more}>${xml(words)}</text>`,
    );
  const [y0, y1] = range("y");
  for (const tick of roundTicks(y0, y1, view.logY)) {
    out.push(
      `<line x1="${px(area.left)}" x2="${px(right)}" y1="${px(y(tick))}" y2="${px(y(tick))}" stroke="${palette.grid}"/>`,
    );
    text([area.left - 6, y(tick) + 4], "end", format.axis(metric, tick, view.logY ? 0 : (y1 - y0) / 6));
  }
  const [x0, x1] = range("x");
  for (const tick of roundTicks(x0, x1, view.logX, 5)) {
    if (isUnderTitle(plot, tick, { view, xName })) continue;
    text(
      [x(tick), bottom + 16],
      "middle",
      view.x === "step" ? format.si(tick, "", 3) : xText(view.x, tick, zone).slice(-8),
    );
  }
  text([right, bottom + 16], "end", xName);
  out.push(
    `<clipPath id="${id}"><rect x="${px(area.left)}" y="${px(HEAD + area.top)}"` +
      ` width="${px(area.width)}" height="${px(area.height)}"/></clipPath><g clip-path="url(#${id})" fill="none">`,
  );
  const { data, bands, raws } = lay(lines, view);
  const xs = data[0];
  const curve = (values: Values, stroke: string, width: number, dash?: number[]): void => {
    const path = pathOf(xs, values, x, y);
    if (path)
      out.push(`<path d="${path}" stroke="${stroke}" stroke-width="${width}"${dashes(dash)} stroke-linejoin="round"/>`);
  };
  let column = 1;
  lines.forEach((line, i) => {
    const { stroke, dash } = lineStyle(line.color, palette);
    const values = data[column] ?? [];
    column += 1;
    if (raws[i]) {
      curve(data[column] ?? [], alpha(stroke, 0.25), 1);
      column += 1;
    }
    if (bands[i]) {
      const points = [...edge(xs, data[column] ?? [], x, y), ...edge(xs, data[column + 1] ?? [], x, y).toReversed()];
      column += 2;
      if (points.length > 0) out.push(`<polygon points="${points.join(" ")}" fill="${alpha(stroke, 0.15)}"/>`);
    }
    curve(values, line.faint ? alpha(stroke, 0.35) : stroke, line.faint ? 1 : 1.5, dash);
  });
  out.push("</g>");
  out.push(`<text x="12" y="18" font-size="13" font-weight="600" fill="${palette.text}" ${FONT}>${xml(title)}</text>`);
  for (const { line, x: at, stroke, dash } of keys(picture)) {
    out.push(
      `<line x1="${px(at)}" x2="${px(at + 14)}" y1="32" y2="32" stroke="${stroke}" stroke-width="2"${dashes(dash)}/>`,
    );
    text([at + 20, 36], "start", line.label);
  }
  const height = plot.height + HEAD;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${plot.width}" height="${height}"` +
    ` viewBox="0 0 ${plot.width} ${height}">` +
    `<rect width="100%" height="100%" fill="${palette.bg}"/>${out.join("")}</svg>\n`
  );
}

/** The canvas with its title and legend above, as sharp as the screen. */
export function toPng(picture: Picture & { canvas: HTMLCanvasElement; ratio: number }): Promise<Blob | null> {
  const { title, palette, plot, canvas, ratio } = picture;
  const out = document.createElement("canvas");
  out.width = canvas.width;
  out.height = canvas.height + HEAD * ratio;
  const context = out.getContext("2d");
  if (!context) return Promise.resolve(null);
  context.fillStyle = palette.bg;
  context.fillRect(0, 0, out.width, out.height);
  context.drawImage(canvas, 0, HEAD * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = palette.text;
  context.font = '600 13px "Inter Variable", system-ui';
  context.fillText(title, 12, 18, plot.width - 24);
  context.font = '11px "Inter Variable", system-ui';
  for (const { line, x, stroke, dash } of keys(picture)) {
    context.strokeStyle = stroke;
    context.lineWidth = 2;
    context.setLineDash(dash ?? []);
    context.beginPath();
    context.moveTo(x, 32);
    context.lineTo(x + 14, 32);
    context.stroke();
    context.fillStyle = palette.text2;
    context.fillText(line.label, x + 20, 36);
  }
  return new Promise((resolve) => out.toBlob(resolve, "image/png"));
}

/** Let the browser keep it. */
export function download(name: string, content: Blob | string, type = "text/plain"): void {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A file name for a chart: "train/loss" → "train-loss". */
export const fileName = (title: string): string =>
  title.replace(/[^\p{L}\p{N}_.-]+/gu, "-").replace(/^-+|-+$/g, "") || "chart";
