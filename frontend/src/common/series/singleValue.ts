/** Metrics that have one value: numbers, not curves. Pure. */
import type { TrialDetail } from "../../api/queries";
import type { Tile } from "../../charts/Tiles";
import { isTerminal } from "../../lib/states";

/** The value of a metric that has one and gets no more: the trial has ended, or gone on without it. Null for the others. */
export function singleValue(
  trial: Pick<TrialDetail, "state" | "step" | "summary">,
  name: string,
  label: string,
  at: (step: number) => string,
): Tile | null {
  const summary = trial.summary[name];
  if (summary?.count !== 1 || (!isTerminal(trial.state) && trial.step <= summary.step)) return null;
  return { key: name, label, value: summary.last, note: at(summary.step) };
}
