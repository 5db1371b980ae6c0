/** How long an experiment is meant to train. Pure. */

const UNITS = ["epochs", "steps", "samples", "seconds"] as const;

export interface Length {
  unit: (typeof UNITS)[number];
  value: number;
}

const asLength = (raw: unknown): Length | null => {
  if (typeof raw !== "object" || raw === null) return null;
  const plain = raw as Record<string, unknown>;
  // A trainer's `samples` are those of its random data.
  const unit = UNITS.find((name) => typeof plain[name] === "number");
  return unit ? { unit, value: plain[unit] as number } : null;
};

/** The full length in the resolved document: of its search, else of the built-in trainer; null: its own
 * code decides. */
export function lengthOf(config: Record<string, unknown>): Length | null {
  const search = config["search"] as { max_length?: unknown } | undefined;
  return asLength(search?.max_length) ?? asLength(config["trainer"]);
}
