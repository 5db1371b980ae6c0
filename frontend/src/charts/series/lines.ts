/** What a chart draws: lines of points, and how they are laid out for uPlot. */
import type uPlot from "uplot";

import { type Along, middle, type XKind, xOf } from "../../lib/series/axis";
import { alignTo, bestIn, type Cell, type Columns, isNoiseless, smooth, union } from "../../lib/series/series";
import type { YRange } from "./yRanges";

/** One curve: its points are read when drawing, never kept in state. */
export interface Line {
  key: string;
  label: string;
  columns: Columns;
  /** Position in the palette. */
  color: number;
  /** Drawn thin and pale (many trials, stopped ones). */
  faint?: boolean;
  /** Shade from least to greatest, smoothed or not: the curve is a mean of several. */
  band?: boolean;
  /** Where its relative time begins, and its epochs, samples or seconds by step. */
  along?: Along;
}

export interface Source {
  lines: () => Line[];
  subscribe: (listener: () => void) => () => void;
  restarts?: () => number[];
  /** Steps with a checkpoint. */
  checkpoints?: () => number[];
  /** Steps at which a guard has acted. */
  guards?: () => number[];
  /** What people wrote at a step. */
  notes?: () => readonly { step: number; text: string }[];
  /** Budgets of rungs, in units of the x axis. */
  rungs?: () => number[];
  /** The window, in units of the x axis. */
  range?: () => { from?: number; to?: number };
  error?: () => Error | null;
  /** True once an answer came, even an empty one. */
  ready: () => boolean;
}

/** How curves are looked at. */
export interface View {
  x: XKind;
  logX: boolean;
  logY: boolean;
  /** 0 = raw, below 1. */
  smoothing: number;
  /** The y axis holds the middle 90 % of the values. */
  clip: boolean;
  /** The y axis as it was set by hand, which goes before `clip`. */
  y?: YRange;
}

const DOTS_MAX = 30;
/** Beyond so many lines the pale raw ones would be a fog, and take half of the time of a drawing. */
const RAWS_MAX = 12;

/** Few points are shown as such: a single one has no line. */
export const hasDots = (line: Line): boolean => !line.faint && line.columns.step.length <= DOTS_MAX;

export interface Laid {
  data: uPlot.AlignedData;
  /** Per line: whether two columns for its band follow its own. */
  bands: boolean[];
  /** Per line: whether a pale raw column follows. */
  raws: boolean[];
  /** The x of each line's entries. */
  xs: Float64Array[];
  /** The values themselves, without bands and raw columns. */
  values: Cell[][];
  /** Per line: its best value; null where nothing says what is best. */
  best: (number | null)[];
  /** The factor that lines with noise are smoothed by; 0 without any. */
  smoothing: number;
  /** What the y axis is cut to, an end that is null to nothing; null: everything. */
  cut: YRange | null;
}

/** Columns for uPlot: x, then per line the value, the raw value when smoothed, and the band. */
export function lay(lines: readonly Line[], view: View): Laid {
  const xs = lines.map((line) => xOf(line.columns, view.x, line.along));
  const all = union(xs);
  const x = view.logX ? all.filter((value) => value > 0) : all;
  const data: (Float64Array | Cell[])[] = [x];
  const laid: Laid = {
    data: data as unknown as uPlot.AlignedData,
    bands: [],
    raws: [],
    xs,
    values: [],
    best: [],
    smoothing: 0,
    cut: null,
  };
  lines.forEach(({ columns, faint, band }, i) => {
    const own = xs[i] ?? columns.step;
    const skip = view.logX ? own.findIndex((value) => value > 0) : 0;
    const put = (values: Float64Array): Cell[] =>
      alignTo(x, own.subarray(Math.max(0, skip)), values.subarray(Math.max(0, skip)), view.logY);
    const smoothed = view.smoothing > 0 && !isNoiseless(columns.mean);
    if (smoothed) laid.smoothing = view.smoothing;
    const values = put(smoothed ? smooth(columns.step, columns.mean, view.smoothing) : columns.mean);
    data.push(values);
    laid.values.push(values);
    const raw = smoothed && !band && lines.length <= RAWS_MAX;
    const shaded = !faint && (band === true || columns.bucketSteps > 1);
    laid.best.push(bestIn(columns));
    laid.raws.push(raw);
    laid.bands.push(shaded);
    if (raw) data.push(put(columns.mean));
    if (shaded) data.push(put(columns.max), put(columns.min));
  });
  if (view.y) laid.cut = view.y;
  else if (view.clip) laid.cut = middle(laid.values);
  return laid;
}
