/** Where a step's time goes, in words and numbers. Pure. */
import { fromWire, type WireNumber } from "./format";

/** The parts of a step, in the order they are stacked. They sum to the step within 2 %. */
export const STEP_PARTS = [
  "time/data_wait_ms",
  "time/host_to_device_ms",
  "time/forward_ms",
  "time/backward_ms",
  "comm/exposed_ms",
  "pipeline/bubble_ms",
  "time/optimizer_ms",
  "time/checkpoint_ms",
  "time/other_ms",
] as const;

export type StepPart = (typeof STEP_PARTS)[number];

export type Latest = Record<string, WireNumber | undefined>;

export function stepParts(latest: Latest): Record<StepPart, number> {
  const out = {} as Record<StepPart, number>;
  for (const part of STEP_PARTS) {
    const value = fromWire(latest[part]);
    out[part] = value !== null && Number.isFinite(value) ? value : 0;
  }
  return out;
}

/** Smallest share of the step that a part is shown with. */
export const LEAST_SHARE = 0.001;

export interface Diagnosis {
  kind: "comm" | "bubble" | "data" | "checkpoint" | "compute" | "unknown";
  /** Share of the step that the named part takes, 0..1. */
  share: number;
  /** comm: accumulation that would bound its share near 10 %. */
  accumulate?: number;
}

/**
 * What to look at first. Communication and a pipeline's bubble count from 20 %, waiting for data from
 * 15 %, checkpoints from 10 % of the step; otherwise the step is compute-bound. With accumulation over k micro-batches the
 * exposed communication is paid once per k: share(k) = c / (c + k·(step − c)).
 */
export function diagnose(latest: Latest): Diagnosis {
  const parts = stepParts(latest);
  const total = STEP_PARTS.reduce((sum, part) => sum + parts[part], 0);
  if (total <= 0) return { kind: "unknown", share: 0 };
  const comm = parts["comm/exposed_ms"];
  const share = comm / total;
  const bubble = parts["pipeline/bubble_ms"] / total;
  if (bubble >= 0.2 && bubble >= share) return { kind: "bubble", share: bubble };
  if (share >= 0.2) {
    const rest = Math.max(1e-9, total - comm);
    const accumulate = Math.min(64, Math.max(2, Math.ceil((comm * 9) / rest)));
    return { kind: "comm", share, accumulate };
  }
  const data = parts["time/data_wait_ms"] / total;
  if (data >= 0.15) return { kind: "data", share: data };
  const checkpoint = parts["time/checkpoint_ms"] / total;
  if (checkpoint >= 0.1) return { kind: "checkpoint", share: checkpoint };
  const compute = (parts["time/forward_ms"] + parts["time/backward_ms"]) / total;
  return { kind: "compute", share: compute };
}

/** Range list for ranks: [0,1,2,5,7,8] → "0–2, 5, 7–8". */
export function rankRanges(ranks: readonly number[]): string {
  const sorted = [...new Set(ranks)].toSorted((a, b) => a - b);
  const out: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === (sorted[j] ?? 0) + 1) j += 1;
    out.push(i === j ? `${sorted[i]}` : `${sorted[i]}–${sorted[j]}`);
    i = j + 1;
  }
  return out.join(", ");
}
