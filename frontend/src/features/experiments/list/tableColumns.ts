/** Columns of the experiments table as they stand in the address: which, in what order, how wide. Pure. */

import { isTerminal } from "../../../lib/states";

/** What every experiment has. Those with a sort are put in order by the server under that name. */
export const BUILT_IN = {
  name: { width: 204, sort: "name" },
  state: { width: 112, sort: "state" },
  labels: { width: 160 },
  searcher: { width: 110, sort: "config.search.method" },
  trials: { width: 136 },
  metric: { width: 200 },
  step: { width: 80, right: true },
  best: { width: 160, sort: "best", right: true },
  progress: { width: 116 },
  slots: { width: 100, sort: "slots", right: true },
  project: { width: 120, sort: "project" },
  owner: { width: 84, sort: "owner" },
  elapsed: { width: 96, right: true },
  created: { width: 100, sort: "created", right: true },
  started: { width: 100, sort: "started", right: true },
  ended: { width: 100, sort: "ended", right: true },
  priority: { width: 90, sort: "priority", right: true },
  notes: { width: 220 },
} as const satisfies Record<string, { width: number; sort?: string; right?: true }>;

export type BuiltIn = keyof typeof BUILT_IN;
export const BUILT_INS = Object.keys(BUILT_IN) as BuiltIn[];
const FIRST: readonly BuiltIn[] = ["name", "state", "metric", "step", "progress", "elapsed", "slots", "created"];
const VALUE_WIDTH = 130;
const MIN_WIDTH = 60;
const MAX_WIDTH = 900;
/** The server answers with so many values. */
export const MAX_VALUES = 40;

export interface TableColumn {
  /** A name of BUILT_IN, or config.<path>, label.<name>, hparam.<name>, metric.<last|min|max|best>.<name>. */
  id: string;
  width: number;
}

export const isBuiltIn = (id: string): id is BuiltIn => Object.hasOwn(BUILT_IN, id);
const isValue = (id: string): boolean => /^(config|label|hparam)\..+|^metric\.(last|min|max|best)\..+/s.test(id);
const widthOf = (id: string): number => (isBuiltIn(id) ? BUILT_IN[id].width : VALUE_WIDTH);
/** What the server sorts by, null when it does not. */
export function sortOf(id: string): string | null {
  if (!isBuiltIn(id)) return id;
  const column: { width: number; sort?: string } = BUILT_IN[id];
  return column.sort ?? null;
}

// A comma and a colon have a meaning between columns, and a metric's name may hold them.
const escape = (text: string): string =>
  text.replace(/[%,:]/g, encodeURIComponent).replaceAll(",", "%2C").replaceAll(":", "%3A");
const unescape = (text: string): string => text.replace(/%(25|2C|3A)/gi, (found) => decodeURIComponent(found));

/** "name,metric.last.loss:200" → columns; the first ones when there is none. The name is always there. */
export function readColumns(text: string | undefined): TableColumn[] {
  const found = new Map<string, TableColumn>();
  for (const part of (text ?? "").split(",")) {
    const [name = "", width = ""] = part.split(":");
    const id = unescape(name);
    if ((!isBuiltIn(id) && !isValue(id)) || found.has(id)) continue;
    const wide = Number(width);
    found.set(id, { id, width: width !== "" && Number.isFinite(wide) ? clampWidth(wide) : widthOf(id) });
  }
  if (found.size === 0) return FIRST.map((id) => ({ id, width: widthOf(id) }));
  const list = [...found.values()];
  return found.has("name") ? list : [{ id: "name", width: widthOf("name") }, ...list];
}

/**
 * The columns of an address. Without any, those that tell these rows apart: whose they are where several people own
 * them, and how far they are while one of them goes on.
 */
export function columnsFor(
  text: string | undefined,
  items: readonly { owner: string | null; state: string }[],
): TableColumn[] {
  const columns = readColumns(text);
  if (text !== undefined || items.length === 0) return columns;
  const owners = new Set(items.map((item) => item.owner));
  const goesOn = items.some((item) => !isTerminal(item.state) && item.state !== "QUEUED");
  const shown = columns.filter(({ id }) => id !== "progress" || goesOn);
  if (owners.size < 2) return shown;
  const at = shown.findIndex(({ id }) => id === "created");
  return [...shown.slice(0, at), { id: "owner", width: widthOf("owner") }, ...shown.slice(at)];
}

export const clampWidth = (width: number): number => Math.round(Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, width)));

/** The other way round; undefined for the first columns at their own widths. */
export function writeColumns(columns: readonly TableColumn[]): string | undefined {
  const text = columns.map(({ id, width }) => escape(id) + (width === widthOf(id) ? "" : `:${width}`)).join(",");
  return text === FIRST.join(",") ? undefined : text;
}

export const added = (columns: readonly TableColumn[], id: string): TableColumn[] =>
  columns.some((one) => one.id === id) ? [...columns] : [...columns, { id, width: widthOf(id) }];
export const removed = (columns: readonly TableColumn[], id: string): TableColumn[] =>
  columns.filter((one) => one.id !== id || id === "name");
export const resized = (columns: readonly TableColumn[], id: string, width: number): TableColumn[] =>
  columns.map((one) => (one.id === id ? { id, width: clampWidth(width) } : one));

/** One place towards the beginning (-1) or the end (1). */
export function moved(columns: readonly TableColumn[], id: string, by: -1 | 1): TableColumn[] {
  const at = columns.findIndex((one) => one.id === id);
  const to = at + by;
  if (at < 0 || to < 0 || to >= columns.length) return [...columns];
  const list = [...columns];
  const [one] = list.splice(at, 1);
  if (one) list.splice(to, 0, one);
  return list;
}

/** The values that must be asked for. */
export const valuesOf = (columns: readonly TableColumn[]): string[] =>
  columns
    .map(({ id }) => id)
    .filter((id) => !isBuiltIn(id))
    .slice(0, MAX_VALUES);

/** Whether a column holds numbers, as the first row with a value in it says; null while no row has come with its values. */
export function holdsNumbers(id: string, items: readonly { values?: Record<string, unknown> }[]): boolean | null {
  if (isBuiltIn(id)) return "right" in BUILT_IN[id];
  if (id.startsWith("metric.")) return true;
  const known = items.filter((item) => item.values && Object.hasOwn(item.values, id));
  if (known.length === 0) return null;
  return typeof known.find((item) => item.values?.[id] !== null)?.values?.[id] === "number";
}

/** A first choice sorts what is a number the largest first, as one looks for it; a third one not at all. */
export function nextSort(current: string | undefined, by: string, isNumber: boolean): string | undefined {
  const [first, second] = isNumber ? [`-${by}`, by] : [by, `-${by}`];
  if (current === first) return second;
  return current === second ? undefined : first;
}

/** How a column of values is called in its head: the last part tells it apart. */
export function valueLabel(id: string): { what: string; of: string } {
  const [kind = "", ...rest] = id.split(".");
  if (kind === "metric") return { what: rest.slice(1).join("."), of: rest[0] ?? "" };
  return { what: rest.join("."), of: kind };
}

/** The condition that only the experiments of a group fulfil; null where text of several lines cannot be written. */
export function groupCondition(by: string, value: number | string | null): string | null {
  if (value === null) return `${by} is missing`;
  return typeof value === "string" &&
    (value.includes("\n") || value === "NaN" || value.trim() !== value || value === "")
    ? null
    : `${by} = ${value}`;
}

/** Conditions on columns, one per line of the address's text. */
export const readConditions = (text: string | undefined): string[] =>
  (text ?? "").split("\n").filter((line) => line !== "");
export const writeConditions = (conditions: readonly string[]): string | undefined =>
  conditions.length > 0 ? conditions.join("\n") : undefined;

/** The address's text with one more condition; one that is there already is moved to the end. */
export const addedCondition = (text: string | undefined, condition: string): string | undefined =>
  writeConditions([...readConditions(text).filter((one) => one !== condition), condition]);

/** Labels that must be there, by comma: "team=vision,urgent". */
export const labelsOf = (text: string | undefined): string[] => (text ?? "").split(",").filter((label) => label !== "");
/** A label as it is looked for: name=value, or the name alone when it has no value. */
export const labelText = (name: string, value: string): string => (value === "" ? name : `${name}=${value}`);
/** The list with an entry more or, when it has it, less; undefined when nothing is left. */
export function toggled(list: readonly string[], entry: string): string | undefined {
  const next = list.includes(entry) ? list.filter((one) => one !== entry) : [...list, entry];
  return next.length > 0 ? next.join(",") : undefined;
}
