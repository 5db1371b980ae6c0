/** How long an experiment is meant to train. Pure. */

export interface Length {
  unit: "epochs" | "steps";
  value: number;
}

const asLength = (raw: unknown): Length | null => {
  if (typeof raw !== "object" || raw === null) return null;
  const { epochs, steps } = raw as { epochs?: unknown; steps?: unknown };
  if (typeof epochs === "number") return { unit: "epochs", value: epochs };
  if (typeof steps === "number") return { unit: "steps", value: steps };
  return null;
};

/** The full length in the resolved document: of its search, else of the built-in trainer; null: its own
 * code decides. */
export function lengthOf(config: Record<string, unknown>): Length | null {
  const search = config["search"] as { max_length?: unknown } | undefined;
  return asLength(search?.max_length) ?? asLength(config["trainer"]);
}
