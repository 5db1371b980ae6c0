/** Figures of plotly as options of ECharts: lines, dots, bars and heat maps on two axes. Pure. */
import type { EChartsOption } from "../../charts/echarts";
import type { Theme } from "../../charts/EChart";
import type { FigureTable } from "../../charts/Figure";

type Value = string | number | null;

export interface Trace {
  kind: "line" | "dots" | "bars" | "heat";
  name: string;
  x: Value[];
  y: Value[];
  /** Of heat maps: row by row. */
  z: Value[][];
}

export interface Plot {
  title: string;
  xTitle: string;
  yTitle: string;
  xLog: boolean;
  yLog: boolean;
  traces: Trace[];
  /** Types of traces that are not drawn. */
  left: string[];
}

type Json = Record<string, unknown>;
const MOST_POINTS = 20_000;
const TYPED = {
  f8: Float64Array,
  f4: Float32Array,
  i4: Int32Array,
  i2: Int16Array,
  i1: Int8Array,
  u4: Uint32Array,
  u2: Uint16Array,
  u1: Uint8Array,
} as const;

const asJson = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {});

/** Numbers that plotly keeps as bytes; null: it is something else. */
function unpacked(value: unknown): { flat: number[]; shape: number[] } | null {
  const { bdata, dtype, shape } = asJson(value);
  if (typeof bdata !== "string" || typeof dtype !== "string" || !(dtype in TYPED)) return null;
  try {
    const bytes = Uint8Array.from(atob(bdata), (letter) => letter.charCodeAt(0));
    const flat = Array.from(new TYPED[dtype as keyof typeof TYPED](bytes.buffer));
    return { flat, shape: typeof shape === "string" ? shape.split(",").map(Number) : [flat.length] };
  } catch {
    return null; // not as many bytes as the type needs
  }
}

const valueOf = (value: unknown): Value =>
  typeof value === "string" || (typeof value === "number" && Number.isFinite(value)) ? value : null;

function listOf(value: unknown): Value[] {
  return (unpacked(value)?.flat ?? (Array.isArray(value) ? value : [])).slice(0, MOST_POINTS).map(valueOf);
}

function rowsOf(value: unknown): Value[][] {
  const packed = unpacked(value);
  if (packed === null) return Array.isArray(value) ? value.map(listOf) : [];
  const width = packed.shape[1] ?? packed.flat.length;
  return Array.from({ length: packed.shape[0] ?? 0 }, (_, no) =>
    packed.flat.slice(no * width, (no + 1) * width).map(valueOf),
  );
}

const wordsOf = (value: unknown): string =>
  (typeof value === "string" ? value : String(asJson(value)["text"] ?? "")).replace(/<[^>]*>/g, "");

const places = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

function traceOf(raw: Json, no: number): Trace | null {
  const type = String(raw["type"] ?? "scatter");
  const name = typeof raw["name"] === "string" ? raw["name"] : `${no + 1}`;
  const [x, y] = [listOf(raw["x"]), listOf(raw["y"])];
  if (type === "heatmap") {
    const z = rowsOf(raw["z"]);
    const width = Math.max(0, ...z.map((row) => row.length));
    return {
      kind: "heat",
      name,
      z,
      x: x.length > 0 ? x : places(width),
      y: y.length > 0 ? y : places(z.length),
    };
  }
  if (raw["orientation"] === "h" || !["scatter", "scattergl", "bar"].includes(type)) return null;
  const along = x.length > 0 ? x : places(y.length);
  const isDots = String(raw["mode"] ?? "lines").split("+")[0] === "markers";
  return { kind: type === "bar" ? "bars" : isDots ? "dots" : "line", name, x: along, y, z: [] };
}

/** What can be drawn of a figure; null: the text is not one. */
export function plotOf(text: string): Plot | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const raw = asJson(value)["data"];
  if (!Array.isArray(raw)) return null;
  const layout = asJson(asJson(value)["layout"]);
  const axis = (name: string): Json => asJson(layout[name]);
  const made = raw.map((trace, no) => ({
    type: String(asJson(trace)["type"] ?? "scatter"),
    of: traceOf(asJson(trace), no),
  }));
  // A heat map has axes of its own kind, which nothing else fits on.
  const heat = made.find(({ of }) => of?.kind === "heat");
  const kept = heat ? [heat] : made.filter(({ of }) => of !== null);
  return {
    title: wordsOf(layout["title"]),
    xTitle: wordsOf(axis("xaxis")["title"]),
    yTitle: wordsOf(axis("yaxis")["title"]),
    xLog: axis("xaxis")["type"] === "log",
    yLog: axis("yaxis")["type"] === "log",
    traces: kept.flatMap(({ of }) => of ?? []),
    left: [...new Set(made.filter((one) => !kept.includes(one)).map(({ type }) => type))],
  };
}

function axisOf(values: readonly Value[], isLog: boolean, name: string, theme: Theme, isBand: boolean) {
  const isWords = isBand || values.some((value) => typeof value === "string");
  return {
    name,
    nameLocation: "middle" as const,
    nameGap: 28,
    type: isWords ? ("category" as const) : isLog ? ("log" as const) : ("value" as const),
    ...(isWords ? { data: [...new Set(values.map((value) => String(value ?? "")))] } : { scale: true }),
    axisLine: { lineStyle: { color: theme.line } },
    axisLabel: { color: theme.text2, hideOverlap: true },
    splitLine: { show: !isWords, lineStyle: { color: theme.grid } },
  };
}

export const colorOf = (theme: Pick<Theme, "series">, no: number): string =>
  theme.series[no % theme.series.length] ?? "#888888";

export function optionOf(plot: Plot, theme: Theme): EChartsOption {
  const heat = plot.traces.find((trace) => trace.kind === "heat");
  const bars = plot.traces.some((trace) => trace.kind === "bars");
  const all = (of: "x" | "y"): Value[] => plot.traces.flatMap((trace) => trace[of]);
  const xAxis = axisOf(all("x"), plot.xLog, plot.xTitle, theme, heat !== undefined || bars);
  const yAxis = axisOf(all("y"), plot.yLog, plot.yTitle, theme, heat !== undefined);
  const grid = { left: 54, right: 16, top: 12, bottom: plot.xTitle ? 44 : 26 };
  if (heat) {
    const cells = heat.z.flatMap((row, y) => row.flatMap((z, x) => (typeof z === "number" ? [[x, y, z]] : [])));
    const values = cells.map((cell) => cell[2] as number);
    const [min, max] = values.reduce(([a, b], z) => [Math.min(a, z), Math.max(b, z)], [Infinity, -Infinity]);
    return {
      grid,
      xAxis,
      yAxis,
      visualMap: { type: "continuous", show: false, min, max, inRange: { color: theme.scale } },
      series: [{ type: "heatmap", data: cells }],
    };
  }
  const xOf = (value: Value): Value => (xAxis.type === "category" ? String(value ?? "") : value);
  return {
    grid,
    xAxis,
    yAxis,
    series: plot.traces.map((trace, no) => ({
      type: trace.kind === "bars" ? ("bar" as const) : trace.kind === "dots" ? ("scatter" as const) : ("line" as const),
      name: trace.name,
      data: trace.y.map((value, i) => [xOf(trace.x[i] ?? null), value]),
      itemStyle: { color: colorOf(theme, no) },
      showSymbol: trace.y.length < 40,
      symbolSize: 5,
    })),
  };
}

/** What stands at a place of the drawing. */
export function spotText(plot: Plot, series: number, index: number): string | null {
  const heat = plot.traces.find((trace) => trace.kind === "heat");
  if (heat) {
    const cells = heat.z.flatMap((row, y) => row.flatMap((z, x) => (typeof z === "number" ? [{ x, y, z }] : [])));
    const cell = cells[index];
    return cell ? `${heat.x[cell.x] ?? cell.x}, ${heat.y[cell.y] ?? cell.y}: ${cell.z}` : null;
  }
  const trace = plot.traces[series];
  return trace ? `${trace.name}\n${trace.x[index] ?? ""}: ${trace.y[index] ?? "–"}` : null;
}

export function tableOf(plot: Plot): FigureTable {
  const cell = (raw: Value) => ({ text: String(raw ?? "–"), raw });
  const heat = plot.traces.find((trace) => trace.kind === "heat");
  if (heat)
    return {
      head: ["", ...heat.x.map((value) => String(value ?? ""))],
      rows: heat.z.map((row, y) => [cell(heat.y[y] ?? y), ...row.map(cell)]),
    };
  return {
    head: ["", plot.xTitle || "x", plot.yTitle || "y"],
    rows: plot.traces.flatMap((trace) =>
      trace.y.map((value, i) => [cell(trace.name), cell(trace.x[i] ?? null), cell(value)]),
    ),
  };
}
