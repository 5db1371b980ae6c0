/** What the logs of a trial are asked for, as the URL says it. */
import { client, unwrap } from "../../api/client";
import type { TrialSearch } from "../../app/router";
import { LogFeed } from "./logFeed";

export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
export type LevelName = (typeof LEVELS)[number];

/** Numbers of ranks in "0,4"; what is no number is passed over. */
export function ranksOf(search: TrialSearch): number[] {
  return search.rank && search.rank !== "all" ? search.rank.split(",").map(Number).filter(Number.isInteger) : [];
}

export function levelsOf(search: TrialSearch): LevelName[] {
  const given = search.level?.split(",") ?? [];
  return LEVELS.filter((level) => given.includes(level));
}

/** Which streams and times; without what the lines say. */
function streamsQuery(search: TrialSearch) {
  return {
    rank: ranksOf(search),
    node: search.node?.split(",") ?? [],
    stream: search.stream as "stdout" | "stderr" | undefined,
    attempt: search.attempt,
    since: search.since,
    until: search.until,
  };
}

function linesQuery(search: TrialSearch) {
  return { level: levelsOf(search), q: search.q, regex: search.q && search.regex ? true : undefined, match_case: search.q && search.exact ? true : undefined };
}

/** Only what is asked for is in the lines, so a search is every line. */
export const isSearch = (search: TrialSearch): boolean => search.q !== undefined || levelsOf(search).length > 0;

/** What makes another feed necessary. */
export const feedKey = (search: TrialSearch, withLines: boolean): string => JSON.stringify([streamsQuery(search), withLines ? linesQuery(search) : null]);

/** withLines: only lines that the search finds; otherwise all of the streams. */
export function newFeed(trialId: number, search: TrialSearch, withLines: boolean): LogFeed {
  const query = { ...streamsQuery(search), ...(withLines ? linesQuery(search) : {}) };
  return new LogFeed((ask, signal) => unwrap(client.GET("/api/v1/trials/{trial_id}/logs", { params: { path: { trial_id: trialId }, query: { ...query, ...ask } }, signal })));
}
