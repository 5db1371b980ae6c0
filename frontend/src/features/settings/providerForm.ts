/** What is asked for a pool's provider: the fields of the form, and the request they become. */
import type { Schemas } from "../../api/client";
import type { ProviderOption } from "../../lib/catalog";

type Provider = Schemas["ProviderOut"];
type ProviderIn = Schemas["ProviderIn"];

/** Numbers are what the boxes hold: an empty one is "". */
export interface Draft {
  name: string;
  kind: ProviderIn["kind"];
  slots: number | string;
  slotType: "cpu" | "cuda";
  min: number | string;
  max: number | string;
  hours: number | string;
  idleMinutes: number | string;
  exclusive: boolean;
  maxSlotHours: number | string;
  maxCost: number | string;
  countAnew: boolean;
  options: Record<string, string>;
}

export const fresh: Draft = {
  name: "",
  kind: "slurm",
  slots: 1,
  slotType: "cpu",
  min: 0,
  max: 4,
  hours: 4,
  idleMinutes: 10,
  exclusive: false,
  maxSlotHours: "",
  maxCost: "",
  countAnew: false,
  options: {},
};

export const draftOf = (provider: Provider): Draft => ({
  name: provider.pool,
  kind: provider.kind as Draft["kind"],
  slots: provider.slots,
  slotType: provider.slot_type === "cuda" ? "cuda" : "cpu",
  min: provider.min_pilots,
  max: provider.max_pilots || 1,
  hours: provider.walltime_s / 3600,
  idleMinutes: provider.idle_s / 60,
  exclusive: provider.exclusive,
  maxSlotHours: provider.max_slot_hours ?? "",
  maxCost: provider.max_cost ?? "",
  countAnew: false,
  options: { ...provider.options },
});

const limit = (value: number | string): number | null => (value === "" ? null : Number(value));

export const bodyOf = (draft: Draft, known: readonly ProviderOption[]): ProviderIn => ({
  kind: draft.kind,
  slots: Number(draft.slots),
  slot_type: draft.slotType,
  min_pilots: draft.exclusive ? 0 : Number(draft.min),
  max_pilots: Number(draft.max),
  walltime_s: Math.round(Number(draft.hours) * 3600),
  idle_s: Math.round(Number(draft.idleMinutes) * 60),
  exclusive: draft.exclusive,
  max_slot_hours: limit(draft.maxSlotHours),
  max_cost: limit(draft.maxCost),
  restart_count: draft.countAnew,
  options: Object.fromEntries(
    Object.entries(draft.options)
      .filter(([name]) => known.some((option) => option.name === name))
      .map(([name, value]): [string, string] => [name, value.trim()])
      .filter(([, value]) => value !== ""),
  ),
});

/** Whether everything that is needed is there; the server judges the rest. Not before it has said what it knows. */
export const isReady = (draft: Draft, known: readonly ProviderOption[]): boolean =>
  known.length > 0 &&
  draft.name.trim() !== "" &&
  [draft.slots, draft.max, draft.hours, draft.idleMinutes].every((value) => Number(value) > 0) &&
  known.every(({ name, is_required }) => !is_required || (draft.options[name] ?? "").trim() !== "");

/** Pilots by what people ask: are they on their way, do they run? */
export function countsOf(byState: Record<string, number>) {
  const sum = (...states: string[]): number => states.reduce((total, state) => total + (byState[state] ?? 0), 0);
  return {
    wanted: sum("wanted", "submitting"),
    pending: sum("pending"),
    running: sum("starting", "up"),
    ending: sum("ending"),
  };
}
