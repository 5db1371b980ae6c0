import { usePref } from "../../lib/prefs";
import type { ChartSearch } from "../chartSearch";

/** Factors to choose from; 0 = raw. */
export const SMOOTHING = [0, 0.6, 0.9, 0.97] as const;
const FIRST = 0.9;
const KEY = "charts.smoothing";

/** The factor charts are drawn with, and how to choose another one: it stands in the address, and this browser remembers it. */
export function useSmoothing(
  search: ChartSearch,
  set: (change: ChartSearch) => void,
): [number, (factor: number) => void] {
  const [kept, keep] = usePref(KEY);
  const remembered = kept === null ? FIRST : Number(kept);
  const factor = search.smooth ?? (remembered >= 0 && remembered < 1 ? remembered : FIRST);
  const choose = (next: number): void => {
    keep(String(next));
    set({ smooth: next });
  };
  return [factor, choose];
}
