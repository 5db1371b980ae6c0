/** What an experiment holds now, and whether any of it runs. Pure. */
import type { TFunction } from "i18next";

import type { Experiment } from "../api/queries";
import { MISSING } from "./format";
import { isTerminal } from "./states";

type Held = Pick<
  Experiment,
  "state" | "num_trials_by_state" | "num_slots_held" | "slots_per_trial" | "slot_type" | "only_trial_id" | "unmanaged"
>;

const HOLDING = ["STARTING", "RUNNING", "STOPPING"];

/** Its state; WAITING while it goes on and none of its trials runs, DOUBTFUL if it ended well and something speaks
 * against it. */
export function shownState({
  state,
  is_doubtful,
  num_trials_by_state,
}: Pick<Experiment, "state" | "is_doubtful" | "num_trials_by_state">): string {
  if (is_doubtful) return "DOUBTFUL";
  return state === "RUNNING" && !HOLDING.some((name) => (num_trials_by_state[name] ?? 0) > 0) ? "WAITING" : state;
}

/** Slots in words: those of a trial; while it goes on, those that are held: "1 of 4 cpu"; none for what runs elsewhere. */
export function slotsText(t: TFunction, item: Held): string {
  if (item.unmanaged !== null) return MISSING;
  const { slots_per_trial: asked, num_slots_held: held, slot_type: type } = item;
  const goesOn = !isTerminal(item.state) && item.state !== "QUEUED" && item.state !== "PAUSED";
  if (!goesOn || held === asked) return `${asked} ${type}`;
  return item.only_trial_id === null ? t("held.ofSearch", { held, asked, type }) : t("held.of", { held, asked, type });
}
