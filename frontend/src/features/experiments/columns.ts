/** Columns of the experiments table that can be left out, and labels as they stand in the address. Pure. */

export const OPTIONAL = ["state", "labels", "searcher", "trials", "best", "progress", "slots", "project", "owner", "elapsed", "created"] as const;
export type OptionalColumn = (typeof OPTIONAL)[number];

/** "slots,owner" → those columns; what is no column is left out. */
export const hiddenOf = (text: string | undefined): OptionalColumn[] => OPTIONAL.filter((name) => text?.split(",").includes(name));

/** The list with an entry more or, when it has it, less; undefined when nothing is left. */
export function toggled(list: readonly string[], entry: string): string | undefined {
  const next = list.includes(entry) ? list.filter((one) => one !== entry) : [...list, entry];
  return next.length > 0 ? next.join(",") : undefined;
}

/** Labels that must be there, by comma: "team=vision,urgent". */
export const labelsOf = (text: string | undefined): string[] => (text ?? "").split(",").filter((label) => label !== "");

/** A label as it is looked for: name=value, or the name alone when it has no value. */
export const labelText = (name: string, value: string): string => (value === "" ? name : `${name}=${value}`);
