/** Which charts are pinned and in what order charts stand, as this browser remembers it. Pure. */
import type { ChartSpec } from "../lib/series/series";

export interface ChartLayout {
  /** Ids of the charts that come first, in their order. */
  pinned: readonly string[];
  /** Ids of each group whose order was changed. */
  order: Readonly<Record<string, readonly string[]>>;
}

export const PINNED = "★";
const MAX_PINNED = 100;
const MAX_ORDERED = 500;
const NOTHING: ChartLayout = { pinned: [], order: {} };

const idsIn = (value: unknown, most: number): string[] =>
  Array.isArray(value) ? value.filter((id): id is string => typeof id === "string").slice(0, most) : [];

/** What was remembered; nothing when it is not ours. */
export function readLayout(text: string | null): ChartLayout {
  try {
    const found = JSON.parse(text ?? "null") as { pinned?: unknown; order?: Record<string, unknown> } | null;
    if (typeof found !== "object" || found === null) return NOTHING;
    const order = Object.entries(found.order ?? {}).map(([group, ids]) => [group, idsIn(ids, MAX_ORDERED)] as const);
    return { pinned: idsIn(found.pinned, MAX_PINNED), order: Object.fromEntries(order) };
  } catch {
    return NOTHING;
  }
}

/** Charts by group: first those that are pinned, then the others in their groups. */
export function arranged(specs: readonly ChartSpec[], layout: ChartLayout): ReadonlyMap<string, ChartSpec[]> {
  const pinned = layout.pinned.flatMap((id) => specs.find((spec) => spec.id === id) ?? []);
  const isPinned = new Set(pinned);
  const groups = new Map<string, ChartSpec[]>(pinned.length > 0 ? [[PINNED, pinned]] : []);
  for (const spec of specs) {
    if (isPinned.has(spec)) continue;
    const members = groups.get(spec.group);
    if (members) members.push(spec);
    else groups.set(spec.group, [spec]);
  }
  for (const [group, ids] of Object.entries(layout.order)) {
    const members = groups.get(group);
    if (!members || group === PINNED) continue;
    const places = new Map(ids.map((id, at) => [id, at]));
    const place = (spec: ChartSpec): number => places.get(spec.id) ?? Number.POSITIVE_INFINITY;
    groups.set(
      group,
      members.toSorted((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b))),
    );
  }
  return groups;
}

export function pinned(layout: ChartLayout, id: string): ChartLayout {
  const has = layout.pinned.includes(id);
  return {
    ...layout,
    pinned: has ? layout.pinned.filter((one) => one !== id) : [...layout.pinned, id].slice(-MAX_PINNED),
  };
}

/** The layout after a chart has taken the place of another one of its group; `ids`: the group as it stands. */
export function placed(
  layout: ChartLayout,
  group: string,
  ids: readonly string[],
  id: string,
  at: number,
): ChartLayout {
  const next = ids.filter((one) => one !== id);
  next.splice(Math.max(0, Math.min(at, next.length)), 0, id);
  // Pinned charts that this page does not have keep their pins.
  if (group === PINNED)
    return { ...layout, pinned: [...next, ...layout.pinned.filter((one) => !next.includes(one))].slice(0, MAX_PINNED) };
  return { ...layout, order: { ...layout.order, [group]: next.slice(0, MAX_ORDERED) } };
}
