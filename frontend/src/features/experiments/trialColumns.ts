/** Columns of the trials table as they stand in the address, and conditions on them. Pure. */

/** What every trial has; its number comes first and stays. */
export const TRIAL_BUILT_INS = ["state", "metric", "step", "restarts", "elapsed", "started", "ended"] as const;
export type TrialBuiltIn = (typeof TRIAL_BUILT_INS)[number];
/** What the server puts in order. */
const SORTED: readonly string[] = ["no", "state", "metric", "step", "elapsed", "started", "ended"];
/** More would not fit on a screen. */
export const MAX_SHOWN = 40;
/** Hyperparameters that are shown at first. */
export const MAX_HPARAMS = 8;

export const isTrialBuiltIn = (id: string): id is TrialBuiltIn => (TRIAL_BUILT_INS as readonly string[]).includes(id);
const isColumn = (id: string): boolean => isTrialBuiltIn(id) || /^(hparam\.|metric\.(last|min|max)\.)./s.test(id);

export const canSort = (id: string): boolean => SORTED.includes(id) || (isColumn(id) && !isTrialBuiltIn(id));

/** What of `id` has a name of its own; the search's metric is called by its name. */
export const isNamed = (id: string): id is Exclude<TrialBuiltIn, "metric"> => isTrialBuiltIn(id) && id !== "metric";

/** The columns there are at first, for these hyperparameters. */
export const firstColumns = (hparams: readonly string[], hasMetric: boolean): string[] => [
  "state",
  ...(hasMetric ? ["metric"] : []),
  ...hparams.slice(0, MAX_HPARAMS).map((name) => `hparam.${name}`),
  "step",
  "restarts",
  "elapsed",
];

/** "state,hparam.lr" → columns; null when the address has none. */
export function readTrialColumns(text: string | undefined): string[] | null {
  const found = (text ?? "").split(",").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  const known = [...new Set(found.filter(isColumn))].slice(0, MAX_SHOWN);
  return known.length > 0 ? known : null;
}

export function writeTrialColumns(columns: readonly string[], first: readonly string[]): string | undefined {
  const same = columns.length === first.length && columns.every((id, at) => id === first[at]);
  return same || columns.length === 0 ? undefined : columns.map(encodeURIComponent).join(",");
}

/** The order after a click on a head: of numbers the largest first, but what is best first for the search's metric. */
export function nextTrialSort(current: string, id: string, goal: string | null): string {
  const first = id === "no" || (id === "metric" && goal !== "max") ? id : `-${id}`;
  const second = first.startsWith("-") ? id : `-${id}`;
  return current === first ? second : first;
}

/** A range or a value of a column as conditions for the server; none for what is empty. */
export function conditionsOf(column: string, low: string, high: string, equals: string): string[] {
  const made = [
    low.trim() === "" ? "" : `${column} >= ${low.trim()}`,
    high.trim() === "" ? "" : `${column} <= ${high.trim()}`,
    equals.trim() === "" ? "" : `${column} = ${equals.trim()}`,
  ];
  return made.filter((one) => one !== "");
}

/** How a column is called: the name alone, and what of a metric it is. */
export function trialColumnName(id: string): { name: string; of: "last" | "min" | "max" | null } {
  const metric = /^metric\.(last|min|max)\.(.+)$/s.exec(id);
  if (metric) return { name: metric[2] ?? "", of: metric[1] as "last" | "min" | "max" };
  return { name: id.replace(/^hparam\./, ""), of: null };
}
