/**
 * What stands on the x axis of a chart, and curves made of several. Pure.
 */
import { type Columns, indexAt, unionSteps } from "./series";

/** Steps; epochs; samples over all ranks; seconds of training; seconds since the trial started; the time of day (ms since 1970). */
export type XKind = "step" | "epoch" | "samples" | "seconds" | "relative" | "wall";

/** Those a page of charts offers. */
export type OfferedKind = Exclude<XKind, "seconds">;

export const X_KINDS: readonly OfferedKind[] = ["step", "epoch", "samples", "relative", "wall"];

/** The samples of all ranks up to a step, for who logs them; the built-in trainer does. */
export const SAMPLES_METRIC = "progress/samples";

/** Equal instants would stand on top of each other, and a line needs ascending x. */
const NUDGE_MS = 0.001;

/** A value that grows with the step, known at some steps: samples, epochs, seconds of training. */
export interface Growing {
  /** Ascending; at least one. */
  step: ArrayLike<number>;
  value: ArrayLike<number>;
}

/** The value at a step: straight between known ones, in proportion to the step beyond the last. */
export function grownAt({ step, value }: Growing, at: number): number {
  const last = step.length - 1;
  const here = indexAt(step as Float64Array, at);
  if (here < 0) return ((value[0] ?? 0) * at) / Math.max(1, step[0] ?? 1);
  const from = step[here] ?? 0;
  const known = value[here] ?? 0;
  if (here < last)
    return known + (((value[here + 1] ?? known) - known) * (at - from)) / ((step[here + 1] ?? from + 1) - from);
  return at === from || from <= 0 ? known : (known * at) / from;
}

/** The last step whose value is at most this; 0 before the first. The inverse of grownAt. */
export function stepOfGrown(growing: Growing, wanted: number): number {
  let low = 0;
  let high = Math.max(1, growing.step[growing.step.length - 1] ?? 1);
  while (grownAt(growing, high) < wanted && high < Number.MAX_SAFE_INTEGER / 2) high *= 2;
  while (low < high) {
    const middleStep = Math.ceil((low + high) / 2);
    if (grownAt(growing, middleStep) <= wanted) low = middleStep;
    else high = middleStep - 1;
  }
  return low;
}

/** What the x of a curve depends on besides its points. */
export interface Along {
  /** Where relative time begins, in ms since 1970. */
  startMs?: number;
  /** Epochs, samples or seconds by step; absent: this curve has none, and is not drawn. */
  growing?: Growing;
}

/**
 * The x of every entry, strictly ascending: steps; epochs, samples or seconds of training; or the time it was logged, in
 * seconds since `startMs` (relative) or in ms (wall). An entry logged no later than the one before
 * stands right behind it. Empty when the curve has no such x.
 */
export function xOf(columns: Columns, kind: XKind, { startMs = 0, growing }: Along = {}): Float64Array {
  if (kind === "step") return columns.step;
  const out = new Float64Array(columns.timeMs.length);
  if (kind === "epoch" || kind === "samples" || kind === "seconds") {
    if (!growing || growing.step.length === 0) return new Float64Array(0);
    let last = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < out.length; i += 1) {
      const value = grownAt(growing, columns.step[i] ?? 0);
      last = value > last ? value : last + Math.max(1e-9, Math.abs(last) * 1e-12);
      out[i] = last;
    }
    return out;
  }
  let before = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < out.length; i += 1) {
    before = Math.max(columns.timeMs[i] ?? 0, before + NUDGE_MS);
    out[i] = kind === "wall" ? before : (before - startMs) / 1000;
  }
  return out;
}

/** Where a step stands on the axis; null outside of the columns. `x` belongs to `columns`. */
export function placeOf(step: number, columns: Columns, x: Float64Array): number | null {
  const at = indexAt(columns.step, step);
  if (at < 0) return null;
  const here = x[at] ?? 0;
  const stepHere = columns.step[at] ?? 0;
  if (stepHere === step) return here;
  const next = columns.step[at + 1];
  if (next === undefined) return null;
  return here + (((x[at + 1] ?? here) - here) * (step - stepHere)) / (next - stepHere);
}

/** The steps logged in a window of time, as a window of steps. A side that is open, or lies behind the last step, is undefined. */
export function stepsWithin(
  columns: Pick<Columns, "step" | "timeMs">,
  fromMs?: number,
  toMs?: number,
): { from?: number; to?: number } {
  const { step, timeMs } = columns;
  if (step.length === 0) return {};
  const before = fromMs === undefined ? -1 : indexAt(timeMs, fromMs);
  const last = toMs === undefined ? step.length - 1 : indexAt(timeMs, toMs);
  return {
    from: fromMs === undefined ? undefined : (step[Math.max(0, before)] ?? 0),
    to: toMs === undefined ? undefined : step[last + 1],
  };
}

/**
 * One curve of several: the mean of those that have begun and not ended at a step, each with its
 * latest value at or before it; min and max over all of them; `count` is how many they are. A value
 * that is not finite enters no figure, and `last` tells of it.
 */
export function meanOver(all: readonly Columns[], name = all[0]?.name ?? ""): Columns {
  const step = unionSteps(all);
  const length = step.length;
  const make = (): Float64Array => new Float64Array(length);
  const out: Columns = {
    name,
    rank: -1,
    bucketSteps: Math.max(1, ...all.map((columns) => columns.bucketSteps)),
    numPoints: all.reduce((sum, columns) => sum + columns.numPoints, 0),
    downsampled: all.some((columns) => columns.downsampled),
    step,
    timeMs: make(),
    min: make(),
    max: make(),
    mean: make(),
    last: make(),
    count: make(),
  };
  const at = all.map(() => -1);
  for (let i = 0; i < length; i += 1) {
    const here = step[i] ?? 0;
    let sum = 0;
    let finite = 0;
    let present = 0;
    let low = Number.POSITIVE_INFINITY;
    let high = Number.NEGATIVE_INFINITY;
    let odd: number | null = null;
    all.forEach((columns, k) => {
      let j = at[k] ?? -1;
      while (j + 1 < columns.step.length && (columns.step[j + 1] ?? 0) <= here) j += 1;
      at[k] = j;
      if (j < 0 || here > (columns.step.at(-1) ?? 0)) return;
      present += 1;
      out.timeMs[i] = Math.max(out.timeMs[i] ?? 0, columns.timeMs[j] ?? 0);
      const value = columns.mean[j] ?? Number.NaN;
      if (!Number.isFinite(value)) {
        if (columns.step[j] === here) odd = value;
        return;
      }
      finite += 1;
      sum += value;
      low = Math.min(low, columns.min[j] ?? value);
      high = Math.max(high, columns.max[j] ?? value);
    });
    out.mean[i] = finite > 0 ? sum / finite : Number.NaN;
    out.min[i] = finite > 0 ? low : Number.NaN;
    out.max[i] = finite > 0 ? high : Number.NaN;
    out.last[i] = odd ?? out.mean[i] ?? Number.NaN;
    out.count[i] = present;
  }
  return out;
}

/** Share of the values at either end that the axis leaves out when outliers are cut. */
const TAIL = 0.05;
const FEW = 20;

/** Least and greatest value of the middle 90 % of the finite values; null below 20 of them. */
export function middle(columns: readonly ArrayLike<number | null | undefined>[]): [number, number] | null {
  const values: number[] = [];
  for (const column of columns) {
    for (let i = 0; i < column.length; i += 1) {
      const value = column[i];
      if (typeof value === "number" && Number.isFinite(value)) values.push(value);
    }
  }
  if (values.length < FEW) return null;
  const sorted = Float64Array.from(values).toSorted();
  const cut = Math.floor(sorted.length * TAIL);
  const low = sorted[cut] ?? 0;
  const high = sorted[sorted.length - 1 - cut] ?? 0;
  return low < high ? [low, high] : null;
}

/** How many of the values lie outside of the range. */
export function outside(
  columns: readonly ArrayLike<number | null | undefined>[],
  [low, high]: readonly [number | null, number | null],
): number {
  let n = 0;
  for (const column of columns) {
    for (let i = 0; i < column.length; i += 1) {
      const value = column[i];
      if (typeof value === "number" && ((low !== null && value < low) || (high !== null && value > high))) n += 1;
    }
  }
  return n;
}

/** The y axis for values from `min` to `max`: some air, not below zero for what never is. */
export function yRange(min: number | null, max: number | null, log: boolean): [number, number] {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return log ? [0.1, 1] : [0, 1];
  if (log) {
    if (min <= 0) return [0.1, 1];
    const pad = min === max ? 2 : (max / min) ** 0.06;
    return [min / pad, max * pad];
  }
  // A mean of equal values may differ in its last digit: that is no change to be drawn over the whole height.
  if (max - min <= Math.abs(max) * 1e-9)
    return max === 0 ? [0, 1] : [min - Math.abs(min) * 0.1, max + Math.abs(max) * 0.1];
  const pad = (max - min) * 0.06;
  return [min >= 0 && min - pad < 0 ? 0 : min - pad, max + pad];
}

/** The y axis where an end or both were chosen: those as they are, the other one by the values. */
export function cutRange(
  [low, high]: readonly [number | null, number | null],
  min: number | null,
  max: number | null,
  log: boolean,
): [number, number] {
  const [from, to] = yRange(min, max, log);
  const bottom = low !== null && (!log || low > 0) ? low : from;
  const top = high !== null && (!log || high > 0) ? high : to;
  if (bottom < top) return [bottom, top];
  // The values lie beyond the end that was chosen: it stays, and the other one makes room.
  const room = log ? 10 : Math.max(Math.abs(bottom), Math.abs(top), 1);
  if (high !== null && top === high) return log ? [top / room, top] : [top - room, top];
  return log ? [bottom, bottom * room] : [bottom, bottom + room];
}

/** A window half or twice as wide around `center`, or moved by a quarter; never below `least`. */
export function moved(
  range: { from: number; to: number },
  how: "in" | "out" | "left" | "right",
  center: number,
  least = 0,
): { from: number; to: number } {
  const width = range.to - range.from;
  if (how === "left" || how === "right") {
    const by = how === "left" ? -Math.min(width / 4, range.from - least) : width / 4;
    return { from: range.from + by, to: range.to + by };
  }
  const next = how === "in" ? width / 2 : width * 2;
  const share = width > 0 ? Math.min(1, Math.max(0, (center - range.from) / width)) : 0.5;
  const from = Math.max(least, center - share * next);
  return { from, to: from + next };
}
