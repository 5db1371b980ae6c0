/** Operations on many experiments: what is selected, and what became of it. Pure. */
import type { Schemas } from "../../../api/client";
import type { ExperimentFilter } from "../../../api/queries";

export type BulkAction = Schemas["BulkIn"]["action"];
export type BulkItem = Schemas["BulkItem"];
/** In the order of the menu: what loses something last. */
export const BULK_ACTIONS = [
  "pause",
  "resume",
  "stop",
  "continue",
  "label",
  "archive",
  "unarchive",
  "kill",
  "delete",
] as const satisfies readonly BulkAction[];

/** What these lose is said in the menu. */
export const isLosing = (action: BulkAction): action is "kill" | "delete" => action === "kill" || action === "delete";

/** Rows that were ticked, or everything that matches the filter of the list. */
export type Selection =
  { kind: "ids"; ids: readonly number[] } | { kind: "filter"; filter: ExperimentFilter; num: number };

export interface Extra {
  keepFiles?: boolean;
  setLabels?: Record<string, string>;
  removeLabels?: string[];
}

/** The request's body, without the digest. */
export function bulkBody(
  action: BulkAction,
  selection: Selection,
  extra: Extra = {},
): Omit<Schemas["BulkIn"], "digest"> {
  const what = {
    action,
    keep_files: extra.keepFiles ?? false,
    set_labels: extra.setLabels ?? {},
    remove_labels: extra.removeLabels ?? [],
  };
  if (selection.kind === "ids") return { ...what, ids: [...selection.ids] };
  const { state, project, q, label, archived, where } = selection.filter;
  return {
    ...what,
    filter: {
      state: state ?? [],
      project: project || undefined,
      q: q || undefined,
      label: label ?? [],
      archived: archived ? "include" : "exclude",
      where: where ?? [],
    },
  };
}

/** The API refuses a filter that leaves nothing out. */
export function leavesOut(filter: ExperimentFilter): boolean {
  return (
    (filter.state?.length ?? 0) > 0 ||
    Boolean(filter.project) ||
    Boolean(filter.q) ||
    (filter.label?.length ?? 0) > 0 ||
    (filter.where?.length ?? 0) > 0
  );
}

export interface Group {
  outcome: BulkItem["outcome"];
  /** Of refused ones: the error's code; they are kept apart by reason. */
  code: string | null;
  items: BulkItem[];
}

/** What changes first, then what stays as it is, then what is refused, the commonest reason first. */
export function grouped(items: readonly BulkItem[]): Group[] {
  const groups = new Map<string, Group>();
  for (const item of items) {
    const key = `${item.outcome} ${item.code ?? ""}`;
    const group = groups.get(key) ?? { outcome: item.outcome, code: item.code, items: [] };
    group.items.push(item);
    groups.set(key, group);
  }
  const order = ["changes", "unchanged", "refused"];
  return [...groups.values()].toSorted(
    (a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome) || b.items.length - a.items.length,
  );
}

/** "team=vision, urgent" → {team: "vision", urgent: ""}; null for a name that is missing. */
export function parseLabels(text: string): Record<string, string> | null {
  const out: Record<string, string> = {};
  for (const part of text
    .split(/[,，\n]/)
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")) {
    const at = part.indexOf("=");
    const name = (at < 0 ? part : part.slice(0, at)).trim();
    if (name === "") return null;
    out[name] = at < 0 ? "" : part.slice(at + 1).trim();
  }
  return out;
}
