import { useEffect } from "react";

import type { ChartSearch } from "../../charts/chartSearch";
import type { SeriesStore } from "../../charts/SeriesStore";

/** Keeps a store at the window of the address; `startMs`: where relative time begins. */
export function useWindow(store: SeriesStore, search: ChartSearch, startMs: number, ranks: number[] | null): void {
  const { x, from, to } = search;
  useEffect(() => {
    const at = (value: number | undefined): number | undefined => (value === undefined ? undefined : x === "relative" ? startMs + value * 1000 : value);
    if (x === undefined) store.configure({ from: from === undefined ? undefined : Math.floor(from), to: to === undefined ? undefined : Math.ceil(to) }, ranks);
    else store.configureTime(at(from), at(to), ranks);
  }, [store, x, from, to, startMs, ranks]);
}
