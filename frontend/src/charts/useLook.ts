import type { ChartSearch } from "./chartSearch";
import type { Command } from "./series/SeriesChart";
import { SMOOTHING, useSmoothing } from "./series/smoothing";

/** How a page looks at its charts: the smoothing factor, and what the keys of a chart change. `id` is the chart's. */
export function useLook(
  search: ChartSearch,
  set: (change: ChartSearch) => void,
): { smoothing: number; command: (id: string, what: Command) => void } {
  const [smoothing, smooth] = useSmoothing(search, set);
  const command = (id: string, what: Command): void => {
    if (what === "logY") set({ log: search.log ? undefined : true });
    else if (what === "logX") set({ logx: search.logx ? undefined : true });
    else if (what === "full") set({ full: search.full === id ? undefined : id });
    else smooth(SMOOTHING[(SMOOTHING.indexOf(smoothing as 0) + 1) % SMOOTHING.length] ?? 0);
  };
  return { smoothing, command };
}
