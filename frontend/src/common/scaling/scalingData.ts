/** What a scaling report's figures and forms are made of. Pure. */
import type { TFunction } from "i18next";

import type { Asked, Estimate, ScalingReport } from "../../api/scaling";
import * as format from "../../lib/format";

export const PARTS = ["compute", "optimizer", "data", "transfer", "wait", "other"] as const;
export type Part = (typeof PARTS)[number];

export interface Dot {
  slots: number;
  value: number;
  low: number | null;
  high: number | null;
  /** Measurements behind it; null: it is predicted. */
  n: number | null;
}

export interface Curve {
  /** "" for what was measured, else the network of the prediction. */
  network: string;
  dots: Dot[];
}

export const MEASURED = "measured";

/** Speed-up or efficiency over slots: what was measured, then a curve for each predicted network. */
export function curves(report: Pick<ScalingReport, "sizes" | "predictions">, kind: "speedup" | "efficiency"): Curve[] {
  const found: Curve[] = [{ network: "", dots: report.sizes.map((size) => dotOf(size.slots, size[kind])) }];
  for (const one of report.predictions) {
    const rate = one.samples_per_s;
    if (one.doubt || one.efficiency === null || !(rate.value > 0)) continue;
    // The interval of throughput, in units of the figure.
    const unit = (one.efficiency * (kind === "speedup" ? one.slots : 1)) / rate.value;
    let curve = found.find((other) => other.network === one.network);
    if (!curve) found.push((curve = { network: one.network, dots: [] }));
    curve.dots.push({
      slots: one.slots,
      value: rate.value * unit,
      low: rate.low === null ? null : rate.low * unit,
      high: rate.high === null ? null : rate.high * unit,
      n: null,
    });
  }
  return found.filter((curve) => curve.dots.length > 0);
}

/** An interval that is wider than its figure is no whisker: what it says is that the figure is not known. */
function dotOf(slots: number, { value, low, high, n, is_determined }: Estimate): Dot {
  return { slots, value, low: is_determined ? low : null, high: is_determined ? high : null, n };
}

/** What the efficiency axis ends at: above every figure, and not at the end of a wide interval. */
export function efficiencyTop(dots: readonly Dot[]): number {
  const most = Math.max(1, ...dots.map((dot) => dot.value));
  const bounds = dots.map((dot) => dot.high ?? 0);
  return Math.min(Math.max(most, ...bounds), Math.max(most * 1.1, 1.25)) * 1.05;
}

/** The run that goes on or comes next; undefined when all are over. */
export const underway = (report: Pick<ScalingReport, "points">): ScalingReport["points"][number] | undefined =>
  report.points.find((point) => point.step_ms === null && point.problem === "");

/** "12.3 ms (11.9 … 12.8, n=3)". */
export function withInterval(t: TFunction, estimate: Estimate, show: (value: number) => string): string {
  return `${isTooWide(estimate) ? t("scaling.tooWide") : show(estimate.value)} (${intervalOf(t, estimate, show)})`;
}

/** It has an interval, and one wider than the figure itself. */
export const isTooWide = ({ low, high, is_determined }: Estimate): boolean =>
  low !== null && high !== null && !is_determined;

export function intervalOf(t: TFunction, { low, high, n }: Estimate, show: (value: number) => string): string {
  return low === null || high === null
    ? t("scaling.noInterval", { n })
    : t("scaling.interval", { low: show(low), high: show(high), n });
}

export const times = (value: number): string => `${format.num(value, 3)} ×`;

/** The numbers of a list by comma; an empty text is an empty list, null: not such a list. */
export function numbersIn(text: string): number[] | null {
  const parts = text.split(/[,，\s]+/).filter((part) => part !== "");
  const numbers = parts.map(Number);
  return numbers.every((value) => Number.isFinite(value) && value > 0) ? [...new Set(numbers)] : null;
}

export const LARGEST = { measured: 4096, predicted: 100_000 } as const;
export const MOST = { measured: 16, predicted: 32, networks: 8 } as const;

/** World sizes by comma; null: not such a list, or one of them is too large. */
export function sizesIn(text: string, largest: number): number[] | null {
  const sizes = numbersIn(text);
  return sizes?.every((size) => Number.isInteger(size) && size <= largest) ? sizes : null;
}

/** One and its doublings up to what the experiment uses; at least two sizes. */
export function usualSizes(slots: number): number[] {
  const out = [1];
  for (let size = 2; size <= Math.max(2, slots); size *= 2) out.push(size);
  if (!out.includes(slots) && slots > 0) out.push(slots);
  return out;
}

/** What of the address is asked of the server; what cannot be read is left out. */
export function askedIn(search: { slots?: string; bandwidth?: string; latency?: number; measured?: number }): Asked {
  const slots = sizesIn(search.slots ?? "", LARGEST.predicted);
  const networks = numbersIn(search.bandwidth ?? "");
  return {
    ...(slots && slots.length > 0 ? { slots } : {}),
    ...(networks && networks.length > 0 ? { bandwidth_mbit_per_s: networks } : {}),
    ...(search.latency !== undefined && networks && networks.length > 0 ? { latency_us: search.latency } : {}),
    ...(search.measured !== undefined && networks && networks.length > 0
      ? { measured_bandwidth_mbit_per_s: search.measured }
      : {}),
  };
}

/** Other networks as they are typed. */
export interface NetworkText {
  bandwidth: string;
  latency: number | string;
  /** Rate of the links that were measured. */
  measured: number | string;
}

/** The address of what is asked for in a form. */
export function askedAs(
  slots: string,
  { bandwidth, latency, measured }: NetworkText,
): { slots?: string; bandwidth?: string; latency?: number; measured?: number } {
  return {
    slots: sizesIn(slots, LARGEST.predicted)?.join(",") || undefined,
    bandwidth: numbersIn(bandwidth)?.join(",") || undefined,
    latency: typeof latency === "number" ? latency : undefined,
    measured: typeof measured === "number" && measured > 0 ? measured : undefined,
  };
}
