/** Metrics of communication that a run of one process has, and that say nothing. Pure. */
import type { TrialDetail } from "../../api/queries";

/** Whether a metric says only that one process has sent nothing. */
export const isIdle = (summary: TrialDetail["summary"], name: string, numRanks: number): boolean =>
  numRanks === 1 && name.startsWith("comm/") && summary[name]?.max === 0;
