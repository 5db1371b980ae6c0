import type { TrialDetail } from "../../../api/queries";

const PREFIX = "staleness/";

export type Bin = {
  /** "3", or "8–15" */
  label: string;
  /** The least number of updates that a gradient of it came late by. */
  from: number;
  count: number;
  /** Of all gradients, 0 to 1. */
  share: number;
};

/** How many gradients came how many updates late, as rank 0 has counted them up to the last
 * validation; empty when the strategy does not count any. */
export function stalenessOf(summary: TrialDetail["summary"]): Bin[] {
  const bins = Object.entries(summary).flatMap(([name, { last }]) => {
    if (!name.startsWith(PREFIX) || typeof last !== "number") return [];
    const label = name.slice(PREFIX.length).replace("_", "–");
    return [{ label, from: Number.parseInt(label, 10), count: last }];
  });
  const all = bins.reduce((sum, bin) => sum + bin.count, 0);
  return bins.toSorted((a, b) => a.from - b.from).map((bin) => ({ ...bin, share: all > 0 ? bin.count / all : 0 }));
}
