/** Which columns of a table are hidden, as text that is kept. Pure. */

export interface Choosable {
  id: string;
  lead?: boolean;
  quiet?: true;
  /** Not there until somebody asks for it. */
  extra?: true;
}

/** The name of a row and its actions always stay. */
export const canHide = (column: Choosable): boolean => !column.lead && !column.quiet;

/** Ids of the columns that are shown; `kept` holds those that differ from the default, by comma. */
export function shownIds(columns: readonly Choosable[], kept: string | null): Set<string> {
  const changed = new Set((kept ?? "").split(","));
  return new Set(
    columns
      .filter((column) => !canHide(column) || changed.has(column.id) === (column.extra ?? false))
      .map(({ id }) => id),
  );
}

/** The same text after a column was shown or hidden; null when all are as they are by default. */
export function toggledId(kept: string | null, id: string): string | null {
  const changed = (kept ?? "").split(",").filter((one) => one !== "");
  const next = changed.includes(id) ? changed.filter((one) => one !== id) : [...changed, id];
  return next.length > 0 ? next.join(",") : null;
}
