/** What may be changed of a search that goes on. Pure. */
import type { Schemas } from "../../../api/client";
import type { Search } from "../../../api/queries";

export const TRIALS_MAX = 100_000;

export interface Limits {
  trials: number | null;
  concurrent: number | "auto";
  /** Trials follow from the document. */
  fixed: boolean;
  /** Trials run outside, where nobody knows what room there is. */
  external: boolean;
}

export function limitsOf(
  config: Readonly<Record<string, unknown>>,
  search: Pick<Search, "has_fixed_trials" | "num_trials_planned" | "concurrent">,
): Limits {
  const given = (config["search"] ?? {}) as { runner?: string };
  return {
    trials: search.num_trials_planned,
    concurrent: search.concurrent ?? "auto",
    fixed: search.has_fixed_trials,
    external: given.runner === "external",
  };
}

/** The request that makes `before` what the form says; null while nothing differs or a field is empty. */
export function changedLimits(
  before: Limits,
  trials: number | string,
  concurrent: number | string,
): Schemas["SearchLimitsIn"] | null {
  const body: Schemas["SearchLimitsIn"] = {};
  if (!before.fixed && trials !== "" && Number(trials) !== before.trials) body.trials = Number(trials);
  if (concurrent === "") return null;
  if (concurrent === "auto") {
    if (before.concurrent !== "auto") body.concurrent = "auto";
  } else if (Number(concurrent) !== before.concurrent) body.concurrent = Number(concurrent);
  return Object.keys(body).length > 0 ? body : null;
}
