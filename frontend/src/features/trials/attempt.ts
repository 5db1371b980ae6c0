import type { TrialDetail } from "../../api/queries";

/** The newest attempt; the server sends the newest first. Undefined before the first one. */
export function latestAttempt(trial: Pick<TrialDetail, "attempts">): TrialDetail["attempts"][number] | undefined {
  return trial.attempts.reduce<TrialDetail["attempts"][number] | undefined>(
    (found, attempt) => (found === undefined || attempt.no > found.no ? attempt : found),
    undefined,
  );
}
