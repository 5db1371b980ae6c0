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

/** Share of the step from which on a part is what the step is bound by, as of a diagnosis with probes. */
export const BOUND_SHARE = 0.1;

export interface Diagnosis {
  kind: "comm" | "bubble" | "data" | "checkpoint" | "compute" | "unknown";
  /** Share of the step that the named part takes, 0..1. */
  share: number;
  /** comm: accumulation over so many micro-batches, and the share that is left then. */
  accumulate?: { k: number; share: number };
}

/**
 * What to look at first: the largest of what is no computation, where it takes at least BOUND_SHARE.
 * With accumulation over k micro-batches the exposed communication is paid once per k:
 * share(k) = c / (c + k·(step − c)); k is the smallest, of at least 2, that brings it below BOUND_SHARE.
 */
export function diagnose(latest: Latest): Diagnosis {
  const parts = stepParts(latest);
  const total = STEP_PARTS.reduce((sum, part) => sum + parts[part], 0);
  if (total <= 0) return { kind: "unknown", share: 0 };
  const costs = [
    { kind: "comm" as const, ms: parts["comm/exposed_ms"] },
    { kind: "bubble" as const, ms: parts["pipeline/bubble_ms"] },
    { kind: "data" as const, ms: parts["time/data_wait_ms"] },
    { kind: "checkpoint" as const, ms: parts["time/checkpoint_ms"] },
  ];
  const { kind, ms } = costs.reduce((most, cost) => (cost.ms > most.ms ? cost : most));
  if (ms < BOUND_SHARE * total) return { kind: "compute", share: (parts["time/forward_ms"] + parts["time/backward_ms"]) / total };
  if (kind !== "comm") return { kind, share: ms / total };
  const rest = Math.max(1e-9, total - ms);
  const k = Math.min(64, Math.max(2, Math.ceil((ms * (1 / BOUND_SHARE - 1)) / rest)));
  return { kind, share: ms / total, accumulate: { k, share: ms / (ms + k * rest) } };
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
