/** The tabs of a trial's page, and the one that it opens on. Pure. */
import type { TrialDetail } from "../../api/queries";
import { isTerminal } from "../../lib/states";

export const TABS = [
  "metrics",
  "logs",
  "performance",
  "goodput",
  "system",
  "ranks",
  "media",
  "outputs",
  "checkpoints",
  "evaluation",
  "config",
  "details",
  "events",
] as const;
export type TabName = (typeof TABS)[number];

/**
 * Return the log for a script that reports no metrics, and for whatever ended without any; otherwise
 * the metrics. Of the built-in trainer the first metric is about to come.
 */
export function homeOf(
  trial: Pick<TrialDetail, "state" | "attempts" | "config" | "unmanaged">,
  hasMetrics: boolean,
): TabName {
  if (hasMetrics || trial.unmanaged !== null || trial.attempts.length === 0) return "metrics";
  const isScript = trial.config["trainer"] === null || trial.config["trainer"] === undefined;
  return isTerminal(trial.state) || (isScript && trial.state === "RUNNING") ? "logs" : "metrics";
}

const OF_NODES: readonly TabName[] = ["logs", "performance", "goodput", "system", "ranks", "outputs", "checkpoints"];

/** Return whether a tab has content, or soon has: nodes report nothing of what runs elsewhere or has not been placed. */
export function isApplicable(name: TabName, trial: Pick<TrialDetail, "attempts" | "unmanaged">): boolean {
  if (trial.unmanaged !== null) return !OF_NODES.includes(name);
  return trial.attempts.length > 0 || !(OF_NODES.includes(name) || name === "evaluation");
}
