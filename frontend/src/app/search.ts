/** What the address of each page holds behind the question mark; what cannot be read is left out. */
import type { CheckpointState } from "../api/queries";
import { type ChartSearch, chartSearch } from "../charts/chartSearch";
import { overrideOf, startOf } from "../lib/forking";
import { EXPERIMENT_STATES } from "../lib/states";

const isOn = (value: unknown): true | undefined => (value === true || value === "true" ? true : undefined);
const instant = (value: unknown): string | undefined =>
  typeof value === "string" && !Number.isNaN(Date.parse(value)) ? new Date(value).toISOString() : undefined;
const text = (value: unknown): string | undefined => {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : undefined;
};
const positive = (value: unknown): number | undefined => {
  const n = Number(value);
  return Number.isInteger(n) && n >= 0 ? n : undefined;
};

/** The code that a command line shows. */
export const deviceSearch = (search: Record<string, unknown>): { code?: string } => ({ code: text(search["code"]) });
/** Why a sign-in at the OpenID provider failed; the server redirects to the page with one of them. */
const PROBLEMS = ["canceled", "expired", "away", "failed", "refused", "name_taken", "identity_taken"] as const;
export type SignInProblem = (typeof PROBLEMS)[number];
export const signInSearch = (search: Record<string, unknown>): { to?: string; problem?: SignInProblem } => ({
  to: text(search["to"]),
  problem: PROBLEMS.find((problem) => problem === search["problem"]),
});

export interface DocsSearch {
  /** What the documentation is searched for. */
  q?: string;
  /** A language other than the reader's. */
  lang?: string;
}
export const docsSearch = (search: Record<string, unknown>): DocsSearch => ({
  q: text(search["q"]),
  lang: search["lang"] === "en" || search["lang"] === "zh-CN" ? search["lang"] : undefined,
});

export const queueSearch = (search: Record<string, unknown>): { project?: string } => ({
  project: text(search["project"]),
});

/** Days and groups that the page of goodput offers. */
export const DAYS = [1, 7, 30] as const;
export const GOODPUT_BY = ["project", "pool", "user"] as const;
export interface GoodputSearch {
  days?: number;
  by?: (typeof GOODPUT_BY)[number];
  project?: string;
  pool?: string;
  user?: string;
}
export const goodputSearch = (search: Record<string, unknown>): GoodputSearch => ({
  days: DAYS.find((days) => days === Number(search["days"])),
  by: GOODPUT_BY.find((by) => by === search["by"]),
  project: text(search["project"]),
  pool: text(search["pool"]),
  user: text(search["user"]),
});

export interface ExperimentsSearch {
  state?: string;
  project?: string;
  q?: string;
  /** By comma: name=value, or the name alone. */
  label?: string;
  /** Columns by comma, with their widths; features/experiments/tableColumns. */
  cols?: string;
  /** A column, with "-" before it the largest first. */
  sort?: string;
  /** Conditions on columns, one per line. */
  where?: string;
  /** The column by whose values the table is grouped. */
  group?: string;
  /** The experiment that is shown beside the table. */
  peek?: number;
  archived?: boolean;
}

export const experimentsSearch = (search: Record<string, unknown>): ExperimentsSearch => {
  const states = (text(search["state"]) ?? "")
    .split(",")
    .filter((state) => (EXPERIMENT_STATES as readonly string[]).includes(state));
  return {
    state: states.length > 0 ? states.join(",") : undefined,
    project: text(search["project"]),
    q: text(search["q"]),
    label: text(search["label"]),
    cols: text(search["cols"]),
    sort: text(search["sort"]),
    where: text(search["where"]),
    group: text(search["group"]),
    peek: positive(search["peek"]),
    archived: search["archived"] === true || search["archived"] === "true" ? true : undefined,
  };
};

/** What of a log is asked for, and the line that is selected. */
export interface LogSearch {
  /** Numbers of trials, by comma: of an experiment's log. */
  trial?: string;
  rank?: string;
  attempt?: number;
  stream?: string;
  q?: string;
  node?: string;
  level?: string;
  since?: string;
  until?: string;
  regex?: boolean;
  exact?: boolean;
  around?: boolean;
  line?: string;
}
const logSearch = (search: Record<string, unknown>): LogSearch => ({
  trial: text(search["trial"]),
  rank: text(search["rank"]),
  attempt: positive(search["attempt"]),
  stream: search["stream"] === "stdout" || search["stream"] === "stderr" ? search["stream"] : undefined,
  q: text(search["q"]),
  node: text(search["node"]),
  level: text(search["level"]),
  since: instant(search["since"]),
  until: instant(search["until"]),
  regex: isOn(search["regex"]),
  exact: isOn(search["exact"]),
  around: isOn(search["around"]),
  line: /^\d{1,15}:\d{1,15}$/.test(String(search["line"])) ? String(search["line"]) : undefined,
});

export interface LogsSearch extends LogSearch {
  experiment?: number;
}

export const logsSearch = (search: Record<string, unknown>): LogsSearch => ({
  ...logSearch(search),
  experiment: positive(search["experiment"]),
});

/** Which checkpoints are shown, and in which order. */
export interface CheckpointSearch {
  saved?: CheckpointState;
  order?: "largest";
}
const checkpointSearch = (search: Record<string, unknown>): CheckpointSearch => ({
  saved:
    search["saved"] === "complete" ||
    search["saved"] === "local" ||
    search["saved"] === "deleting" ||
    search["saved"] === "deleted"
      ? search["saved"]
      : undefined,
  order: search["order"] === "largest" ? "largest" : undefined,
});

export const checkpointsSearch = (search: Record<string, unknown>): CheckpointSearch & { project?: string } => ({
  ...checkpointSearch(search),
  project: text(search["project"]),
});

/** What the list of models is searched for. */
export const modelsSearch = (search: Record<string, unknown>): { q?: string; tab?: "leaderboards" } => ({
  q: text(search["q"]),
  tab: search["tab"] === "leaderboards" ? "leaderboards" : undefined,
});

export const modelSearch = (search: Record<string, unknown>): { tab?: "history" | "promotions" } => ({
  tab: search["tab"] === "history" || search["tab"] === "promotions" ? search["tab"] : undefined,
});

export const versionSearch = (search: Record<string, unknown>): { tab?: "uses" } => ({
  tab: search["tab"] === "uses" ? "uses" : undefined,
});

export interface ExperimentSearch extends CheckpointSearch, LogSearch {
  tab?: string;
  /** A column of the trials, with "-" before it the largest first. */
  sort?: string;
  trialState?: string;
  /** Conditions on trials, one per line, and the columns of their table; features/experiments/trialColumns. */
  where?: string;
  tcols?: string;
  metric?: string;
}

const experimentSearch = (search: Record<string, unknown>): ExperimentSearch => {
  return {
    ...logSearch(search),
    ...checkpointSearch(search),
    tab: text(search["tab"]),
    sort: text(search["sort"]),
    where: text(search["where"]),
    tcols: text(search["tcols"]),
    trialState: text(search["trialState"]),
    metric: text(search["metric"]),
  };
};

export interface TrialSearch extends ChartSearch, LogSearch {
  tab?: string;
  /** The step whose media are shown. */
  step?: number;
}

export const trialSearch = (search: Record<string, unknown>): TrialSearch => {
  return {
    ...chartSearch(search),
    ...logSearch(search),
    tab: text(search["tab"]),
    step: positive(search["step"] ?? Number.NaN),
  };
};

/** The page of an experiment is that of a search, or of its only trial. */
export const runSearch = (search: Record<string, unknown>): ExperimentSearch & TrialSearch => ({
  ...trialSearch(search),
  ...experimentSearch(search),
});

export const diagnosisSearch = (search: Record<string, unknown>): { diagnosis?: number } => ({
  diagnosis: positive(search["diagnosis"]),
});

/** What of a scaling report is looked at: which one, and what it is to predict beside its sizes. */
export interface ScalingSearch {
  report?: number;
  /** World sizes, by comma. */
  slots?: string;
  /** Of other networks, in Mbit/s, by comma. */
  bandwidth?: string;
  /** Of those networks, in microseconds. */
  latency?: number;
  /** Of the network that was measured, in Mbit/s. */
  measured?: number;
}

export const scalingSearch = (search: Record<string, unknown>): ScalingSearch => {
  const latency = Number(search["latency"] ?? Number.NaN);
  const measured = Number(search["measured"] ?? Number.NaN);
  return {
    report: positive(search["report"]),
    slots: text(search["slots"]),
    bandwidth: text(search["bandwidth"]),
    latency: Number.isFinite(latency) && latency >= 0 ? latency : undefined,
    measured: Number.isFinite(measured) && measured > 0 ? measured : undefined,
  };
};

export interface CompareSearch extends ChartSearch {
  tab?: string;
  /** Ids, by comma, in the order in which they were chosen. */
  trials?: string;
  hide?: string;
  /** The trial that the others are compared with. */
  base?: number;
  /** The key of the configuration that makes groups. */
  group?: string;
  /** Also what does not differ. */
  all?: boolean;
  stat?: "min" | "max";
  /** The step whose media are shown, and whose. */
  step?: number;
  rank?: number;
}

export const compareSearch = (search: Record<string, unknown>): CompareSearch => ({
  ...chartSearch(search),
  tab: text(search["tab"]),
  trials: text(search["trials"]),
  hide: text(search["hide"]),
  base: positive(search["base"] ?? Number.NaN),
  group: text(search["group"]),
  all: search["all"] === true || undefined,
  stat: search["stat"] === "min" || search["stat"] === "max" ? search["stat"] : undefined,
  step: positive(search["step"] ?? Number.NaN),
  rank: positive(search["rank"] ?? Number.NaN),
});

/** How the machine is to be reached. */
export const addNodeSearch = (search: Record<string, unknown>): { tab?: string } => ({ tab: text(search["tab"]) });

export const submitSearch = (
  search: Record<string, unknown>,
): { from?: number; start?: string; template?: string; set?: string } => ({
  from: positive(search["from"]),
  set: overrideOf(text(search["set"])),
  start: startOf(text(search["start"])) === "" ? undefined : text(search["start"]),
  template: text(search["template"]),
});

/** The experiment that a session is to be opened from. */
export const sessionsSearch = (search: Record<string, unknown>): { from?: number } => ({
  from: positive(search["from"] ?? Number.NaN),
});

export const settingsSearch = (
  search: Record<string, unknown>,
): { tab?: string; project?: string; pool?: string; group?: string; q?: string } => ({
  tab: text(search["tab"]),
  project: text(search["project"]),
  pool: text(search["pool"]),
  group: text(search["group"]),
  q: text(search["q"]),
});
