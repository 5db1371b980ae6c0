/** Entries of the audit trail as text. Pure. */

/** The kind and the id in "experiment:7"; the kind is empty where a subject is not an id of something with a page. */
export function subjectOf(subject: string): { kind: "experiment" | "trial" | ""; id: string } {
  const [, kind = "", id = ""] = /^(experiment|trial):([1-9]\d*)$/.exec(subject) ?? [];
  return { kind: kind as "experiment" | "trial" | "", id };
}

/** The particulars in one line: "role=viewer expires=90". What is empty is left out. */
export const detailText = (detail: Record<string, unknown>): string =>
  Object.entries(detail)
    .filter(([, value]) => value !== null && value !== "")
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
