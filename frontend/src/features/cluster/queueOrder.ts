/** Where a waiting trial can go. Pure. */
import type { QueueItem, QueueMove } from "../../api/queries";

export interface Places {
  /** The equal just before it, which it may overtake; null when it is the first. */
  before: QueueItem | null;
  /** The equal just behind it, which may overtake it; null when it is the last of those shown. */
  after: QueueItem | null;
}

/** Trials that are ordered by their place alone; between others priority and fair share decide. */
const equals = (item: QueueItem): string => JSON.stringify([item.pool, item.slot_type, item.priority, item.project]);

/** Neighbours among equals, by trial, of a queue in its order. */
export function placesOf(items: readonly QueueItem[]): Map<number, Places> {
  const places = new Map<number, Places>();
  const last = new Map<string, QueueItem>();
  for (const item of items) {
    const key = equals(item);
    const before = last.get(key) ?? null;
    places.set(item.trial_id, { before, after: null });
    if (before) places.set(before.trial_id, { before: places.get(before.trial_id)?.before ?? null, after: item });
    last.set(key, item);
  }
  return places;
}

/**
 * The queue as it will be once `wish`, about one trial, is granted: the row goes next to the equal it names, or
 * before its first equal, and positions stay with the places. The same order, when the queue has it already or knows
 * one of the two no more.
 */
export function moved(items: readonly QueueItem[], wish: QueueMove): readonly QueueItem[] {
  const item = items.find((i) => i.trial_id === wish.trial_id);
  if (!item) return items;
  const others = items.filter((i) => i !== item);
  const among = others.filter((i) => equals(i) === equals(item));
  const target = wish.to
    ? among.at(wish.to === "front" ? 0 : -1)
    : among.find((i) => i.trial_id === (wish.before ?? wish.after)?.trial_id);
  if (!target) return items;
  const behind = wish.to === "back" || Boolean(wish.after);
  const neighbour = placesOf(items).get(item.trial_id)?.[behind ? "before" : "after"];
  if (neighbour === target) return items;
  const order = others.toSpliced(others.indexOf(target) + (behind ? 1 : 0), 0, item);
  // Positions are counted within a lane: each is given to who now stands in that place of the lane.
  const lane = (i: QueueItem): boolean => i.pool === item.pool && i.slot_type === item.slot_type;
  const positions = items.filter(lane).map((i) => i.position);
  let place = 0;
  return order.map((i) => (lane(i) ? { ...i, position: positions[place++] ?? null } : i));
}

/** The items of each pool and slot type, in the order of their first one. */
export function lanesOf(items: readonly QueueItem[]): { pool: string; slotType: string; items: QueueItem[] }[] {
  const lanes = new Map<string, { pool: string; slotType: string; items: QueueItem[] }>();
  for (const item of items) {
    const key = JSON.stringify([item.pool, item.slot_type]);
    const lane = lanes.get(key) ?? { pool: item.pool, slotType: item.slot_type, items: [] };
    lane.items.push(item);
    lanes.set(key, lane);
  }
  return [...lanes.values()];
}
