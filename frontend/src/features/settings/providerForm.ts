/** What is asked for a pool's provider: the fields of the form, and the request they become. */
import type { Schemas } from "../../api/client";

type Provider = Schemas["ProviderOut"];
type ProviderIn = Schemas["ProviderIn"];

export const KINDS = ["slurm", "ray", "kubernetes"] as const satisfies readonly ProviderIn["kind"][];

/** The names of batch systems, which are the same in every language. */
export const NAMES: Record<(typeof KINDS)[number], string> = {
  slurm: "Slurm",
  ray: "Ray",
  kubernetes: "Kubernetes",
};

/** Options that each kind of provider needs, and those that may be left to the batch system. */
export const OPTIONS: Record<(typeof KINDS)[number], { required: readonly string[]; optional: readonly string[] }> = {
  slurm: {
    required: ["server_url", "folder", "agent"],
    optional: [
      "host",
      "partition",
      "account",
      "qos",
      "gres",
      "cpus_per_task",
      "share_nodes",
      "memory_mb",
      "constraint",
      "reservation",
      "exclude",
      "storage_dir",
    ],
  },
  ray: {
    required: ["server_url", "address", "agent", "storage_dir"],
    optional: ["cpus", "gpus", "memory_mb", "resources"],
  },
  kubernetes: {
    required: ["server_url", "namespace", "image", "cpus", "memory"],
    optional: [
      "gpus",
      "gpu_resource",
      "node_selector",
      "tolerations",
      "queue",
      "priority_class",
      "service_account",
      "image_pull_policy",
      "image_pull_secret",
      "storage_claim",
      "grace_s",
      "user_id",
      "context",
    ],
  },
};

/** Numbers are what the boxes hold: an empty one is "". */
export interface Draft {
  name: string;
  kind: (typeof KINDS)[number];
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

export const kindOf = (kind: string): Draft["kind"] => KINDS.find((one) => one === kind) ?? "slurm";

export const draftOf = (provider: Provider): Draft => ({
  name: provider.pool,
  kind: kindOf(provider.kind),
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

export const bodyOf = (draft: Draft): ProviderIn => ({
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
      .filter(([name]) => [...OPTIONS[draft.kind].required, ...OPTIONS[draft.kind].optional].includes(name))
      .map(([name, value]): [string, string] => [name, value.trim()])
      .filter(([, value]) => value !== ""),
  ),
});

/** Whether everything that is needed is there; the server judges the rest. */
export const isReady = (draft: Draft): boolean =>
  draft.name.trim() !== "" &&
  [draft.slots, draft.max, draft.hours, draft.idleMinutes].every((value) => Number(value) > 0) &&
  OPTIONS[draft.kind].required.every((name) => (draft.options[name] ?? "").trim() !== "");

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
