import { useEffect } from "react";

import type { ChartSearch } from "../../charts/chartSearch";
import type { SeriesStore } from "../../charts/series/SeriesStore";
import { type Growing, stepOfGrown } from "../../lib/series/axis";

/**
 * Keeps a store at the window of the address; `startMs`: where relative time begins; `growing`: the
 * epochs or samples by step, without which a window of them is the whole curve.
 */
export function useWindow(
  store: SeriesStore,
  search: ChartSearch,
  startMs: number,
  ranks: number[] | null,
  growing?: Growing,
): void {
  const { x } = search;
  const isGrowing = x === "epoch" || x === "samples";
  const step = (value: number | undefined, more: number): number | undefined =>
    value === undefined || !growing ? undefined : stepOfGrown(growing, value) + more;
  const from = isGrowing ? step(search.from, 0) : search.from;
  const to = isGrowing ? step(search.to, 1) : search.to;
  const isTime = x === "relative" || x === "wall";
  useEffect(() => {
    const at = (value: number | undefined): number | undefined =>
      value === undefined ? undefined : x === "relative" ? startMs + value * 1000 : value;
    if (!isTime)
      store.configure(
        { from: from === undefined ? undefined : Math.floor(from), to: to === undefined ? undefined : Math.ceil(to) },
        ranks,
      );
    else store.configureTime(at(from), at(to), ranks);
  }, [store, x, isTime, from, to, startMs, ranks]);
}
