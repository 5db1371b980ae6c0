/** Which items belong to a step, and what their contents say. Pure. */
import type { MediaSeries } from "../../api/queries";
import { fromWire, type WireNumber } from "../../lib/format";

/** Every step at which any of them has an item, ascending. */
export function stepsOf(series: readonly MediaSeries[]): number[] {
  return [...new Set(series.flatMap((one) => one.steps))].toSorted((a, b) => a - b);
}

/** The last of the ascending steps that is not after `wanted`; null: all are. */
export function stepAt(steps: readonly number[], wanted: number): number | null {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle] as number) <= wanted) low = middle + 1;
    else high = middle;
  }
  return steps[low - 1] ?? null;
}

/** Those whose name contains the text, in any case. */
export function named<T extends { name: string }>(series: readonly T[], text: string): T[] {
  const wanted = text.trim().toLowerCase();
  return wanted === "" ? [...series] : series.filter((one) => one.name.toLowerCase().includes(wanted));
}

/** Names and kinds of several trials, each once, by name. */
export function together(all: readonly (readonly MediaSeries[])[]): { name: string; kind: MediaSeries["kind"] }[] {
  const found = new Map(all.flat().map((one) => [`${one.name}\n${one.kind}`, { name: one.name, kind: one.kind }]));
  return [...found.values()].toSorted((a, b) => a.name.localeCompare(b.name) || a.kind.localeCompare(b.kind));
}

export interface HistogramContent {
  counts: number[];
  edges: number[];
  num_values?: number;
  num_non_finite?: number;
}

export interface CurveContent {
  precision: WireNumber[];
  recall: WireNumber[];
  thresholds: WireNumber[];
}

export interface MatrixContent {
  classes: string[];
  counts: number[][];
}

export interface TableContent {
  columns: string[];
  rows: (string | number | boolean | null)[][];
  num_rows: number;
}

/** Points of a curve that have a place: [recall, precision]. */
export const pointsOf = (curve: CurveContent): [number, number][] =>
  curve.recall.flatMap((value, i): [number, number][] => {
    const [x, y] = [fromWire(value), fromWire(curve.precision[i])];
    return x !== null && y !== null && Number.isFinite(x) && Number.isFinite(y) ? [[x, y]] : [];
  });

/** Area under the points by trapezoids, in their order of recall. */
export function areaOf(points: readonly [number, number][]): number {
  const sorted = points.toSorted((a, b) => a[0] - b[0]);
  let area = 0;
  for (let i = 1; i < sorted.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [sorted[i - 1] as [number, number], sorted[i] as [number, number]];
    area += ((x1 - x0) * (y0 + y1)) / 2;
  }
  return area;
}
