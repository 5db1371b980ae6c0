/**
 * Shaping of metric series for drawing. Pure: no fetching, no canvas.
 *
 * A chart's x axis holds the union of its series' steps. In a column, `undefined` means "this series
 * has no point at this x" (the line goes on) and `null` means "a point that cannot be drawn" (the
 * line breaks): not finite values, or values at or below zero on a log axis.
 */
import type { Schemas } from "../../api/client";
import { fromWire, type WireNumber } from "../format";
import { type Labels, NO_LABELS, splitRun } from "./runs";

/** A series of the API as typed columns, oldest first; not finite values stay NaN or ±Infinity. */
export interface Columns {
  name: string;
  rank: number;
  bucketSteps: number;
  numPoints: number;
  downsampled?: boolean;
  step: Float64Array;
  timeMs: Float64Array;
  min: Float64Array;
  max: Float64Array;
  mean: Float64Array;
  last: Float64Array;
  count: Float64Array;
}

const toArray = (values: readonly (WireNumber | null)[]): Float64Array =>
  Float64Array.from(values, (value) => fromWire(value) ?? Number.NaN);

export function toColumns(series: Schemas["Series"]): Columns {
  return {
    name: series.name,
    rank: series.rank,
    bucketSteps: series.bucket_steps,
    numPoints: series.num_points,
    downsampled: series.downsampled,
    step: Float64Array.from(series.step),
    timeMs: Float64Array.from(series.time_ms),
    min: toArray(series.min),
    max: toArray(series.max),
    mean: toArray(series.mean),
    last: toArray(series.last),
    count: Float64Array.from(series.count),
  };
}

/** First step of the last (possibly unfinished) bucket: what a refresh has to ask for again. */
export function tailStart(columns: Columns): number {
  const last = columns.step.at(-1) ?? 0;
  const width = Math.max(1, columns.bucketSteps);
  return Math.floor(last / width) * width;
}

/** `head` up to (not with) the tail's window, then the tail. Both of the same series. */
export function mergeTail(head: Columns, tail: Columns, from: number): Columns {
  let keep = head.step.length;
  while (keep > 0 && (head.step[keep - 1] ?? 0) >= from) keep -= 1;
  const join = (a: Float64Array, b: Float64Array): Float64Array => {
    const out = new Float64Array(keep + b.length);
    out.set(a.subarray(0, keep));
    out.set(b, keep);
    return out;
  };
  let kept = 0;
  for (let i = 0; i < keep; i += 1) kept += head.count[i] ?? 0;
  return {
    name: head.name,
    rank: head.rank,
    bucketSteps: head.bucketSteps,
    numPoints: kept + tail.numPoints,
    downsampled: head.downsampled === true || tail.downsampled === true,
    step: join(head.step, tail.step),
    timeMs: join(head.timeMs, tail.timeMs),
    min: join(head.min, tail.min),
    max: join(head.max, tail.max),
    mean: join(head.mean, tail.mean),
    last: join(head.last, tail.last),
    count: join(head.count, tail.count),
  };
}

/** Sorted union of several ascending x columns. */
export function union(all: readonly Float64Array[]): Float64Array {
  if (all.length === 1 && all[0]) return all[0];
  const seen = new Set<number>();
  for (const column of all) for (const x of column) seen.add(x);
  return Float64Array.from(seen).toSorted();
}

/** Sorted union of the steps of several series. */
export const unionSteps = (all: readonly Columns[]): Float64Array => union(all.map((columns) => columns.step));

export type Cell = number | null | undefined;

/** `values` (one per step of `columns`) laid out over the steps `x`, which contain all of them. */
export function alignTo(x: Float64Array, steps: Float64Array, values: ArrayLike<number>, log = false): Cell[] {
  const out: Cell[] = Array.from({ length: x.length });
  let i = 0;
  for (let j = 0; j < x.length && i < steps.length; j += 1) {
    if (x[j] !== steps[i]) continue;
    const value = values[i] ?? Number.NaN;
    out[j] = !Number.isFinite(value) || (log && value <= 0) ? null : value;
    i += 1;
  }
  return out;
}

/**
 * Exponential smoothing whose weight depends on the distance in steps relative to the visible range,
 * so that the curve does not change its shape with the sampling level. `factor` 0..1, 0 = off.
 * Not finite values pass through and do not enter the average. The start is debiased.
 */
export function smooth(steps: ArrayLike<number>, values: ArrayLike<number>, factor: number): Float64Array {
  const length = values.length;
  const out = new Float64Array(length);
  if (factor <= 0 || length < 2) {
    for (let i = 0; i < length; i += 1) out[i] = values[i] ?? Number.NaN;
    return out;
  }
  const span = Math.max(1e-12, (steps[length - 1] ?? 0) - (steps[0] ?? 0));
  const weight = Math.min(0.9999, factor);
  let average = 0;
  let bias = 0;
  let previous: number | null = null;
  for (let i = 0; i < length; i += 1) {
    const value = values[i] ?? Number.NaN;
    if (!Number.isFinite(value)) {
      out[i] = value;
      continue;
    }
    const step = steps[i] ?? 0;
    // A range of 500 points one apart behaves like the classic EMA with this factor.
    const distance = previous === null ? 1 : Math.max(1e-9, ((step - previous) / span) * 500);
    const keep = weight ** distance;
    bias = bias * keep + (1 - keep);
    // By the difference, so that equal values give exactly that value.
    average += (value - average) * ((1 - keep) / bias);
    out[i] = average;
    previous = step;
  }
  return out;
}

/** Share of the points at which a series without noise may turn; of noise, two thirds do. */
const TURNS_MAX = 0.05;

/** Whether a series goes up or down in a few long runs, such as a learning rate, an epoch or memory: nothing to smooth. */
export function isNoiseless(values: ArrayLike<number>): boolean {
  let turns = 0;
  let direction = 0;
  let before = Number.NaN;
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] ?? Number.NaN;
    if (!Number.isFinite(value)) continue;
    const now = Math.sign(value - before);
    if (now !== 0 && !Number.isNaN(now)) {
      if (direction !== 0 && now !== direction) turns += 1;
      direction = now;
    }
    before = value;
  }
  return turns <= Math.max(1, values.length * TURNS_MAX);
}

export interface NonFinite {
  step: number;
  kind: "NaN" | "∞" | "−∞";
}

/** Where the series holds values that no line can show. */
export function nonFinite(columns: Columns): NonFinite[] {
  const out: NonFinite[] = [];
  for (let i = 0; i < columns.last.length; i += 1) {
    const value = [columns.last[i], columns.mean[i]].find((v) => v !== undefined && !Number.isFinite(v));
    if (value === undefined) continue;
    const kind = Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
    out.push({ step: columns.step[i] ?? 0, kind });
  }
  return out;
}

/** Ticks of a log axis: powers of ten, at most six; 1-2-5 between them when there is room. */
export function logTicks(min: number, max: number): number[] {
  if (!(min > 0) || !(max > min)) return min > 0 ? [min] : [];
  const low = Math.floor(Math.log10(min));
  const high = Math.ceil(Math.log10(max));
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const factors = high - low <= 2 ? [1, 2, 5] : [1];
  const out: number[] = [];
  for (let power = low; power <= high; power += every) {
    for (const factor of factors) {
      // Parsed, not computed: V8's `10 ** -4` depends on whether the function has been optimized.
      const tick = Number(`${factor}e${power}`);
      if (tick >= min && tick <= max) out.push(tick);
    }
  }
  return out;
}

/** Index of the entry at or before `step`; -1 when all are later. */
export function indexAt(steps: ArrayLike<number>, step: number): number {
  let low = 0;
  let high = steps.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if ((steps[middle] ?? 0) <= step) low = middle + 1;
    else high = middle - 1;
  }
  return high;
}

const MEASURED = ["time/", "comm/", "pipeline/", "throughput/"] as const;

/**
 * Steps from the first point to the last, of what Muster measures: where steps are fast a point is the mean of several,
 * and there are more steps than points. Null for what a script reports, which has a value where it reports one.
 */
export function stepsOf({ name, bucketSteps, step }: Columns): number | null {
  if (bucketSteps > 1 || step.length === 0 || !MEASURED.some((group) => name.startsWith(group))) return null;
  return (step.at(-1) ?? 0) - (step[0] ?? 0) + 1;
}

export interface Gaps {
  /** The rhythm: one value in so many steps, or a bucket in so many steps. */
  every: number;
  /** How many values, or buckets with values, it leaves out. */
  missing: number;
  /** The step before the first of them. */
  after: number;
}

/** Of so few values no rhythm can be told. */
const LEAST_VALUES = 8;
/** So large a part of the distances must be the same for them to be a rhythm. */
const RHYTHM_SHARE = 0.8;

/**
 * Where a series with a rhythm, such as a value every 10 steps, leaves values out. A gap is a distance of several beats
 * between two of one beat; what reports in another rhythm from some step on, or in none, has no gaps. Null without any,
 * and for what Muster measures, whose rows cover all steps since the previous one.
 */
export function gapsOf(columns: Columns): Gaps | null {
  const { name, step } = columns;
  if (step.length < LEAST_VALUES || MEASURED.some((group) => name.startsWith(group))) return null;
  const width = Math.max(1, columns.bucketSteps);
  const place = step.map((at) => Math.floor(at / width));
  const counts = new Map<number, number>();
  const apart = (i: number): number => (place[i + 1] ?? 0) - (place[i] ?? 0);
  for (let i = 0; i + 1 < place.length; i += 1) counts.set(apart(i), (counts.get(apart(i)) ?? 0) + 1);
  const [beat, times] = [...counts].reduce((most, one) => (one[1] > most[1] ? one : most));
  if (beat < 1 || times < RHYTHM_SHARE * (place.length - 1)) return null;
  let missing = 0;
  let after: number | null = null;
  for (let i = 1; i + 2 < place.length; i += 1) {
    const left = Math.round(apart(i) / beat) - 1;
    if (left < 1 || apart(i - 1) !== beat || apart(i + 1) !== beat) continue;
    missing += left;
    after ??= step[i] ?? 0;
  }
  return after === null ? null : { every: beat * width, missing, after };
}

/**
 * Whether less or more of a metric is better, by what it is called; null when that says nothing, as of an expression
 * of several: the least of a difference is not the best.
 */
export function goalOf(metric: string): "min" | "max" | null {
  if (/[\s()*+^]/.test(metric)) return null;
  const name = metric.slice(metric.lastIndexOf("/") + 1);
  if (/loss|error|perplexity/.test(name)) return "min";
  // What a machine transfers is neither good nor bad.
  if (/accuracy|f1|recall|precision|(?<!bytes_)per_s/.test(name)) return "max";
  return null;
}

/** The best finite value of a curve, of all its points and not of the buckets' means; null: nothing says what is best. */
export function bestIn(columns: Columns): number | null {
  const goal = goalOf(columns.name);
  if (goal === null) return null;
  const values = goal === "min" ? columns.min : columns.max;
  let best: number | null = null;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (best === null || (goal === "min" ? value < best : value > best)) best = value;
  }
  return best;
}

/** Metric names that belong on one chart: training and validation of the same quantity overlaid, and all runs of it. */
export interface ChartSpec {
  id: string;
  group: string;
  names: string[];
  /** Where it is not the id alone. */
  title?: string;
}

/** Of so many lines each has a look of its own; further runs have the next chart. */
const LINES_MAX = 24;

/** The group of metrics without one in their names. No name begins so: a slash comes after a group. */
export const UNGROUPED = "/";

/** What a script logs comes first, in groups of its own names; what Muster measures follows. */
const SCRIPT_GROUPS = ["train", "val", "test", UNGROUPED];
const MEASURED_GROUPS = ["throughput", "comm", "time", "pipeline", "network", "memory", "progress"];

/** A loss as scripts and their libraries call it: "loss", "train_loss", "train/loss", "eval_loss". */
const LOSS = /(^|[/_.])loss$/;

/**
 * Charts for a trial's metrics; grouped by prefix, `val/x` joins `train/x`, and all runs of a metric are on one chart.
 *
 * labels: what the metrics of child runs begin with.
 */
export function chartSpecs(names: readonly string[], labels: Labels = NO_LABELS): ChartSpec[] {
  const runs = new Map<string, { run: string; name: string }[]>();
  for (const name of new Set(names)) {
    const { run, metric } = splitRun(name, labels);
    runs.set(metric, [...(runs.get(metric) ?? []), { run, name }]);
  }
  const named = (metric: string): string[] =>
    (runs.get(metric) ?? [])
      .toSorted((a, b) => a.run.localeCompare(b.run, undefined, { numeric: true }))
      .map(({ name }) => name);
  const specs: ChartSpec[] = [];
  for (const metric of [...runs.keys()].toSorted()) {
    const slash = metric.indexOf("/");
    const group = slash < 0 ? UNGROUPED : metric.slice(0, slash);
    const rest = slash < 0 ? metric : metric.slice(slash + 1);
    if (group === "val" && runs.has(`train/${rest}`)) continue;
    const partner = group === "train" && runs.has(`val/${rest}`) ? `val/${rest}` : null;
    const all = [...named(metric), ...(partner ? named(partner) : [])];
    for (let at = 0; at < all.length; at += LINES_MAX) {
      const no = at / LINES_MAX + 1;
      specs.push({
        id: no === 1 ? metric : `${metric} (${no})`,
        group: group === "val" ? "train" : group,
        names: all.slice(at, at + LINES_MAX),
        ...(partner ? { title: `${metric} · ${partner}` } : {}),
      });
    }
  }
  return inOrder(specs);
}

/** One chart per metric, for several trials on each, with the further runs of each trial. */
export function compareSpecs(names: readonly string[], labels: Labels = NO_LABELS): ChartSpec[] {
  const runs = new Map<string, string[]>();
  for (const name of new Set(names)) {
    const { metric } = splitRun(name, labels);
    runs.set(metric, [...(runs.get(metric) ?? []), name]);
  }
  return inOrder(
    [...runs].map(([metric, all]) => ({
      id: metric,
      group: metric.includes("/") ? metric.slice(0, metric.indexOf("/")) : UNGROUPED,
      names: all.toSorted((a, b) => a.length - b.length || a.localeCompare(b)).slice(0, LINES_MAX),
    })),
  );
}

function inOrder(specs: readonly ChartSpec[]): ChartSpec[] {
  const order = (group: string): number => {
    const at = SCRIPT_GROUPS.indexOf(group);
    if (at >= 0) return at;
    return SCRIPT_GROUPS.length + 1 + MEASURED_GROUPS.indexOf(group);
  };
  const first = (spec: ChartSpec): number => (LOSS.test(spec.id) ? 0 : 1);
  return specs.toSorted(
    (a, b) =>
      order(a.group) - order(b.group) ||
      a.group.localeCompare(b.group) ||
      first(a) - first(b) ||
      a.id.localeCompare(b.id),
  );
}
