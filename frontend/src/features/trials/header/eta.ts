/** How long a running trial still takes. Pure. */
import type { TrialDetail } from "../../../api/queries";
import { parseAt } from "../../../lib/time";
import { latestAttempt } from "../attempt";

type Facts = Pick<TrialDetail, "state" | "step" | "num_steps_planned" | "last_report_at"> & {
  attempts: Pick<TrialDetail["attempts"][number], "no" | "resume_step" | "started_at">[];
};

/** Before that many steps of an attempt, its start-up weighs too much. */
const STEPS_MIN = 10;

/**
 * Return the seconds that the remaining steps take at `stepMs` each, the recent step time, or at the mean pace of the
 * attempt where step times are not measured. Null if the trial does not run, or if either number of
 * steps or pace is unknown.
 */
export function etaS(trial: Facts, stepMs: number | null): number | null {
  if (trial.state !== "RUNNING" || !trial.num_steps_planned) return null;
  const left = trial.num_steps_planned - trial.step;
  if (left <= 0) return null;
  if (stepMs !== null) return (left * stepMs) / 1000;
  const attempt = latestAttempt(trial);
  const started = parseAt(attempt?.started_at);
  const reported = parseAt(trial.last_report_at);
  const done = trial.step - (attempt?.resume_step ?? 0);
  if (started === null || reported === null || done < STEPS_MIN || reported <= started) return null;
  return ((reported - started) / 1000 / done) * left;
}
