/** What the newest rows say together, as the server has worked it out; one step alone says little. Pure. */
import type { Schemas } from "../../../api/client";
import { LEAST_SHARE, STEP_PARTS, type StepPart } from "../../../lib/series/perf";

export type Measured = Pick<Schemas["PerformanceOut"], "figures" | "num_rows">;

/** Whether there are figures to ask for: only what has measured something has them. */
export const isMeasured = (summary: Readonly<Record<string, unknown>>): boolean =>
  Object.keys(summary).some((name) => name.startsWith("time/") || name.startsWith("throughput/"));

/** The share of a part in the step: of both sums, so that long steps count for more. */
export function shareOf(figures: Measured["figures"], part: string): number | null {
  const ms = figures[part];
  const step = figures["time/step_ms"];
  return ms === undefined || step === undefined || !(step > 0) ? null : ms / step;
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
export function stepShares(figures: Measured["figures"]): { part: StepPart; share: number }[] {
  const parts = STEP_PARTS.map((part) => ({ part, ms: Math.max(0, figures[part] ?? 0) }));
  const total = parts.reduce((sum, { ms }) => sum + ms, 0);
  if (total <= 0 || !("time/forward_ms" in figures || "time/backward_ms" in figures)) return [];
  return parts.map(({ part, ms }) => ({ part, share: ms / total })).filter(({ share }) => share >= LEAST_SHARE);
}
