import type { Experiment } from "../../api/queries";
import { parseAt } from "../../lib/time";

/** Those that ended last, of the experiments at hand; the last one first. */
export function lastEnded(items: readonly Experiment[], max: number): Experiment[] {
  return items
    .filter((item) => item.ended_at !== null)
    .toSorted((a, b) => (parseAt(b.ended_at) ?? 0) - (parseAt(a.ended_at) ?? 0))
    .slice(0, max);
}
