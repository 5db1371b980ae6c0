/** What the newest steps say together; one step alone says little. Pure. */
import type { Schemas } from "../../api/client";
import { fromWire } from "../../lib/format";
import { LEAST_SHARE, STEP_PARTS, type StepPart } from "../../lib/perf";

type Entry = Pick<Schemas["MetricSummary"], "last" | "recent_mean" | "recent_count">;

export interface Recent {
  mean: number;
  /** How many values it is over, each of one step or the mean of several. */
  count: number;
}

/** The mean of a metric's newest values; its last one while there is no mean yet. */
export function recentOf(entry: Entry | undefined): Recent | null {
  if (entry === undefined) return null;
  if (entry.recent_mean !== null && entry.recent_mean !== undefined)
    return { mean: entry.recent_mean, count: entry.recent_count };
  const last = fromWire(entry.last);
  return last === null || !Number.isFinite(last) ? null : { mean: last, count: 1 };
}

/** The share of a part in the whole: of both sums, so that long steps count for more. */
export function shareOf(part: Entry | undefined, whole: Entry | undefined): Recent | null {
  const a = recentOf(part);
  const b = recentOf(whole);
  return a === null || b === null || !(b.mean > 0)
    ? null
    : { mean: a.mean / b.mean, count: Math.min(a.count, b.count) };
}

/** The best value of a metric so far. Only the metric that trials are compared by has a goal; of others less is better. */
export function bestOf(
  name: string,
  entry: Pick<Schemas["MetricSummary"], "min" | "max">,
  compared: { metric_name: string | null; metric_goal: string | null },
) {
  return name === compared.metric_name && compared.metric_goal === "max" ? entry.max : entry.min;
}

/**
 * The share of each part in the sum of the parts, in the order of STEP_PARTS; parts too small to be seen are left out.
 * Empty unless phases are measured: the time of steps alone says nothing about where it goes.
 */
export function stepShares(summary: Readonly<Record<string, Entry>>): { part: StepPart; share: number }[] {
  const parts = STEP_PARTS.map((part) => ({ part, ms: Math.max(0, recentOf(summary[part])?.mean ?? 0) }));
  const total = parts.reduce((sum, { ms }) => sum + ms, 0);
  if (total <= 0 || !("time/forward_ms" in summary || "time/backward_ms" in summary)) return [];
  return parts.map(({ part, ms }) => ({ part, share: ms / total })).filter(({ share }) => share >= LEAST_SHARE);
}
