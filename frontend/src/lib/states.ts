/** How each state looks: a tone (colour) and an icon; the word comes from i18n. */

export type Tone = "run" | "ok" | "warn" | "bad" | "idle" | "lost";
export type Glyph =
  | "play"
  | "check"
  | "cross"
  | "clock"
  | "loader"
  | "stop"
  | "pause"
  | "retry"
  | "early"
  | "question"
  | "ban"
  | "unplug";

export interface Look {
  tone: Tone;
  glyph: Glyph;
}

const LOOKS: Record<string, Look> = {
  DRAFT: { tone: "idle", glyph: "clock" },
  QUEUED: { tone: "idle", glyph: "clock" },
  PLANNED: { tone: "idle", glyph: "clock" },
  WAITING: { tone: "idle", glyph: "clock" },
  PREPARING: { tone: "run", glyph: "loader" },
  STARTING: { tone: "run", glyph: "loader" },
  RUNNING: { tone: "run", glyph: "play" },
  WINDING_DOWN: { tone: "run", glyph: "loader" },
  PAUSED: { tone: "warn", glyph: "pause" },
  STOPPING: { tone: "warn", glyph: "stop" },
  RETRY_WAIT: { tone: "warn", glyph: "retry" },
  COMPLETED: { tone: "ok", glyph: "check" },
  DOUBTFUL: { tone: "warn", glyph: "question" },
  SUCCEEDED: { tone: "ok", glyph: "check" },
  STOPPED_EARLY: { tone: "idle", glyph: "early" },
  CANCELED: { tone: "idle", glyph: "ban" },
  STOPPED: { tone: "idle", glyph: "stop" },
  ASSIGNED: { tone: "idle", glyph: "clock" },
  READY: { tone: "idle", glyph: "clock" },
  PREEMPTED: { tone: "warn", glyph: "retry" },
  RESIZED: { tone: "idle", glyph: "retry" },
  FAILED: { tone: "bad", glyph: "cross" },
  LOST: { tone: "lost", glyph: "unplug" },
  JOINING: { tone: "run", glyph: "loader" },
  ONLINE: { tone: "ok", glyph: "check" },
  SUSPECT: { tone: "warn", glyph: "question" },
  RECONCILING: { tone: "warn", glyph: "loader" },
  REMOVED: { tone: "idle", glyph: "ban" },
};

export function lookOf(state: string): Look {
  return LOOKS[state] ?? { tone: "idle", glyph: "question" };
}

export const TERMINAL = new Set(["COMPLETED", "STOPPED_EARLY", "FAILED", "CANCELED"]);
export const isTerminal = (state: string): boolean => TERMINAL.has(state);

/** Experiments in the order a person filters by. */
export const EXPERIMENT_STATES = [
  "QUEUED",
  "RUNNING",
  "PAUSED",
  "STOPPING",
  "COMPLETED",
  "FAILED",
  "CANCELED",
] as const;

/** The members of `all` named in a comma list ("A,B"), in its order; unknown names are dropped. */
export function pickStates<T extends string>(all: readonly T[], text: string | undefined): T[] {
  const named = new Set(text?.split(",") ?? []);
  return all.filter((state) => named.has(state));
}

/** Trials in the order of a progress bar: done first, then moving, then waiting. */
export const TRIAL_STATES = [
  "COMPLETED",
  "STOPPED_EARLY",
  "FAILED",
  "CANCELED",
  "RUNNING",
  "STARTING",
  "STOPPING",
  "RETRY_WAIT",
  "PAUSED",
  "QUEUED",
] as const;

/** Colour of an experiment in the slot strip: by id, so that it never changes on reload. */
export function seriesIndex(id: number): number {
  return ((id % 6) + 6) % 6;
}
