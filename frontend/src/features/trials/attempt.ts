import type { TrialDetail } from "../../api/queries";

/** The newest attempt; the server sends the newest first. Undefined before the first one. */
export function latestAttempt<Attempt extends Pick<TrialDetail["attempts"][number], "no">>(trial: {
  attempts: Attempt[];
}): Attempt | undefined {
  return trial.attempts.reduce<Attempt | undefined>(
    (found, attempt) => (found === undefined || attempt.no > found.no ? attempt : found),
    undefined,
  );
}
