/** Where a waiting trial can go. Pure. */
import type { QueueItem } from "../../api/queries";

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
