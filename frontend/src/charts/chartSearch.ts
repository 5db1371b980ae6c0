/** How charts are looked at, as it stands in the address. Part of the first download: keep it small. */
import type { OfferedKind } from "../lib/series/axis";

export interface ChartSearch {
  x?: Exclude<OfferedKind, "step">;
  /** The window, in units of the x axis. */
  from?: number;
  to?: number;
  log?: boolean;
  logx?: boolean;
  clip?: boolean;
  /** 0 = raw, below 1; absent: as this browser remembers it. */
  smooth?: number;
  /** Y axes set by hand; see yRanges.ts. */
  yr?: string;
  find?: string;
  /** Groups that are folded, by comma. */
  closed?: string;
  /** The chart that fills the screen. */
  full?: string;
}

export function chartSearch(search: Record<string, unknown>): ChartSearch {
  const on = (key: string): true | undefined => (search[key] === true || search[key] === "true" ? true : undefined);
  const num = (key: string): number | undefined => {
    const n = typeof search[key] === "boolean" || search[key] === "" ? Number.NaN : Number(search[key] ?? Number.NaN);
    return Number.isFinite(n) && n >= 0 ? n : undefined;
  };
  const word = (key: string): string | undefined =>
    search[key] === undefined || search[key] === "" ? undefined : String(search[key]);
  const { x } = search;
  const smooth = num("smooth");
  return {
    x: x === "epoch" || x === "samples" || x === "relative" || x === "wall" ? x : undefined,
    from: num("from"),
    to: num("to"),
    log: on("log"),
    logx: on("logx"),
    clip: on("clip"),
    smooth: smooth !== undefined && smooth < 1 ? smooth : undefined,
    yr: word("yr"),
    find: word("find"),
    closed: word("closed"),
    full: word("full"),
  };
}
