/** What can be done with an experiment now, and what it would touch. Pure. */
import type { Experiment, Me } from "../../api/queries";
import { mayChange } from "../../lib/access";
import type { SearchMethod } from "../../lib/catalog";
import { isTerminal } from "../../lib/states";

export type Operation =
  "pause" | "resume" | "stop" | "kill" | "close" | "continue" | "fork" | "session" | "archive" | "unarchive" | "delete";

type Facts = Pick<
  Experiment,
  | "state"
  | "desired"
  | "archived_at"
  | "owner"
  | "unmanaged"
  | "num_trials_by_state"
  | "num_trials"
  | "num_trials_planned"
>;

/** The operations that make sense now, for this user, in the order of the menu: what loses something last. */
export function offered(data: Facts, user: Pick<Me, "role" | "username"> | undefined): Operation[] {
  const isMine = mayChange(user, data.owner);
  const isOver = isTerminal(data.state);
  const archive = data.archived_at ? "unarchive" : "archive";
  if (data.unmanaged !== null) return !isMine ? [] : isOver ? [archive, "delete"] : ["close"];
  const fork: Operation[] = user && user.role !== "viewer" ? ["fork", "session"] : [];
  if (!isMine) return fork;
  if (isOver) return ["continue", ...fork, archive, "delete"];
  const isEnding = data.desired === "stop" || data.desired === "kill";
  return [
    ...(isEnding ? [] : ([data.desired === "pause" ? "resume" : "pause", "stop"] as const)),
    ...fork,
    ...(data.desired === "kill" ? [] : (["kill"] as const)),
  ];
}

/** What is shown but cannot be done, because a client outside the cluster runs it. */
export function refused(data: Facts, user: Pick<Me, "role" | "username"> | undefined): Operation[] {
  const goesOn = data.unmanaged !== null && !isTerminal(data.state);
  return goesOn && mayChange(user, data.owner) ? ["pause", "stop"] : [];
}

const HOLDING = new Set(["STARTING", "RUNNING", "STOPPING"]);

export interface Touched {
  /** Trials with processes. */
  active: number;
  /** Queued, paused or waiting to restart. */
  waiting: number;
  /** Trials the search may still create. */
  planned: number;
}

/** The trials an operation on all of an experiment is about. */
export function touched(data: Pick<Facts, "num_trials_by_state" | "num_trials" | "num_trials_planned">): Touched {
  let active = 0;
  let waiting = 0;
  for (const [state, count] of Object.entries(data.num_trials_by_state)) {
    if (HOLDING.has(state)) active += count;
    else if (!isTerminal(state)) waiting += count;
  }
  return { active, waiting, planned: Math.max(0, (data.num_trials_planned ?? 0) - data.num_trials) };
}

export type Ongoing = "pause" | "resume" | "stop" | "kill";

/** The sentences of a confirmation: a key below `operation.effect` and its count, none with 0. */
export function effects(
  kind: Ongoing,
  { active, waiting, planned }: Touched,
): {
  key:
    | "pauseActive"
    | "pauseWaiting"
    | "pausePlanned"
    | "resumeWaiting"
    | "stopActive"
    | "killActive"
    | "endWaiting"
    | "endPlanned";
  count: number;
}[] {
  const all = {
    pause: [
      { key: "pauseActive", count: active },
      { key: "pauseWaiting", count: waiting },
      { key: "pausePlanned", count: planned },
    ],
    resume: [{ key: "resumeWaiting", count: waiting }],
    stop: [
      { key: "stopActive", count: active },
      { key: "endWaiting", count: waiting },
      { key: "endPlanned", count: planned },
    ],
    kill: [
      { key: "killActive", count: active },
      { key: "endWaiting", count: waiting },
      { key: "endPlanned", count: planned },
    ],
  } as const;
  return all[kind].filter((entry) => entry.count > 0);
}

/** Which trials go on when it is continued: a key below `continue.trials` and a count, none with 0.
 * A search that judges its trials goes on with those that were under way; others take what did not end
 * well, and everything when there is more length. */
export function goingOn(
  data: Pick<Facts, "num_trials_by_state">,
  method: Pick<SearchMethod, "is_search" | "compares">,
  isLonger: boolean,
): { key: "single" | "underWay" | "broken" | "longer" | "stay"; count: number }[] {
  const by = (...states: string[]): number =>
    states.reduce((sum, state) => sum + (data.num_trials_by_state[state] ?? 0), 0);
  const broken = by("FAILED", "CANCELED");
  const complete = by("COMPLETED", "STOPPED_EARLY");
  if (!method.is_search) return [{ key: "single", count: broken + complete }];
  if (method.compares) return [{ key: "underWay" as const, count: by("CANCELED") }].filter((entry) => entry.count > 0);
  const all = [
    { key: "broken" as const, count: broken },
    { key: isLonger ? ("longer" as const) : ("stay" as const), count: complete },
  ];
  return all.filter((entry) => entry.count > 0);
}
