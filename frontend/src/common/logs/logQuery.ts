/** What the logs of a trial or an experiment are asked for, as the URL says it. */
import { askAhead, askedAhead } from "../../api/ahead";
import { client, type Schemas, unwrap } from "../../api/client";
import type { TrialDetail } from "../../api/queries";
import type { LogSearch } from "../../app/search";
import { isTerminal } from "../../lib/states";
import { reasonText } from "../../components/text/Message";
import { type LogAsk, LogFeed, type LogPage, PAGE_LINES } from "./logFeed";

/** Whose log it is. */
export interface LogSource {
  key: string;
  /** Says when there is more to read; null: it is asked again now and then. */
  topic: string | null;
  /** Nothing more is written, but for what is still on its way. */
  isOver: boolean;
  /** Numbers of attempts to choose from. */
  attempts: number[];
  /** Why nothing is written yet. */
  waitingFor: string;
  /** Numbers of trials to choose from; null: it is the log of one trial. */
  trials: number[] | null;
  page: (query: LogQuery & LogAsk, signal: AbortSignal) => Promise<LogPage>;
  histogram: (search: LogSearch, signal: AbortSignal) => Promise<Schemas["LogHistogram"]>;
}

export type LogQuery = ReturnType<typeof streamsQuery> & Partial<ReturnType<typeof linesQuery>>;

const trialPage = (id: number, query: LogQuery & LogAsk, signal?: AbortSignal): Promise<LogPage> =>
  unwrap(client.GET("/api/v1/trials/{trial_id}/logs", { params: { path: { trial_id: id }, query }, signal }));

const pageQuestion = (id: number, query: LogQuery & LogAsk): string => `log ${id} ${JSON.stringify(query)}`;

export const trialSource = (trial: TrialDetail): LogSource => ({
  key: `trial:${trial.id}`,
  topic: `trial:${trial.id}:logs`,
  isOver: isTerminal(trial.state),
  attempts: trial.attempts.map((attempt) => attempt.no),
  waitingFor: reasonText(trial.pending_reason, trial.pending_parts),
  trials: null,
  page: (query, signal) => askedAhead(pageQuestion(trial.id, query), () => trialPage(trial.id, query, signal)),
  histogram: (search, signal) =>
    unwrap(
      client.GET("/api/v1/trials/{trial_id}/logs/histogram", {
        params: { path: { trial_id: trial.id }, query: streamsQuery(search) },
        signal,
      }),
    ),
});

const numbers = (text: string | undefined): number[] => text?.split(",").map(Number).filter(Number.isInteger) ?? [];

export const trialsOf = (search: LogSearch): number[] => numbers(search.trial).filter((no) => no > 0);

export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
export type LevelName = (typeof LEVELS)[number];

/** Numbers of ranks in "0,4"; what is no number is passed over. */
export function ranksOf(search: LogSearch): number[] {
  return search.rank && search.rank !== "all" ? numbers(search.rank) : [];
}

export function levelsOf(search: LogSearch): LevelName[] {
  const given = search.level?.split(",") ?? [];
  return LEVELS.filter((level) => given.includes(level));
}

/** Which streams and times; without what the lines say. */
export function streamsQuery(search: LogSearch) {
  return {
    rank: ranksOf(search),
    node: search.node?.split(",") ?? [],
    stream: search.stream as "stdout" | "stderr" | undefined,
    attempt: search.attempt,
    since: search.since,
    until: search.until,
  };
}

function linesQuery(search: LogSearch) {
  return {
    level: levelsOf(search),
    q: search.q,
    regex: search.q && search.regex ? true : undefined,
    match_case: search.q && search.exact ? true : undefined,
  };
}

/** Only what is asked for is in the lines, so a search is every line. */
export const isSearch = (search: LogSearch): boolean => search.q !== undefined || levelsOf(search).length > 0;

/** Ask for the end of a trial's log before there is a view of it; one that opens elsewhere asks itself. */
export function askForLog(id: number, search: LogSearch): void {
  if (search.line !== undefined || search.around) return;
  const query = { ...streamsQuery(search), ...linesQuery(search), from: "tail" as const, limit: PAGE_LINES };
  askAhead(pageQuestion(id, query), () => trialPage(id, query));
}

/** What makes another feed necessary. */
export const feedKey = (source: LogSource, search: LogSearch, withLines: boolean): string =>
  JSON.stringify([
    source.key,
    streamsQuery(search),
    source.trials === null ? null : trialsOf(search),
    withLines ? linesQuery(search) : null,
  ]);

/** What makes another histogram necessary. */
export const histogramKey = (source: LogSource, search: LogSearch): string =>
  JSON.stringify([source.key, streamsQuery(search), source.trials === null ? null : trialsOf(search)]);

/** withLines: only lines that the search finds; otherwise all of the streams. */
export function newFeed(source: LogSource, search: LogSearch, withLines: boolean): LogFeed {
  const query = {
    ...streamsQuery(search),
    ...(withLines ? linesQuery(search) : {}),
    ...(source.trials === null ? {} : { trial: trialsOf(search) }),
  };
  return new LogFeed((ask, signal) => source.page({ ...query, ...ask }, signal));
}
