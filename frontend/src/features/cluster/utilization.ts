/** Slots in use over time, as an area: its outline, its ticks and its numbers. Pure. */
import type { PoolSlots, PoolUtilization, Utilization } from "../../api/queries";

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;
/** Distances that ticks below the area may have. */
const TICKS_MS = [1, 2, 5, 10, 30, 60, 120, 240, 720, 1440].map((minutes) => minutes * MINUTE_MS);
const MAX_TICKS = 7;
/** A younger cluster is shown with some time before it, so that one value does not fill the picture. */
const LEAST_BUCKETS = 4;
export const PERIODS_H = [1, 6, 24, 168] as const;

/** When the first of the nodes joined. */
export const firstJoined = (nodes: readonly { joined_at: string }[]): string | null =>
  nodes.map((node) => node.joined_at).toSorted()[0] ?? null;

/** The shortest period that shows all of a young cluster, and a day of any other. */
export function usualPeriod(since: number | null, now: number): (typeof PERIODS_H)[number] {
  const hours = since === null ? 24 : (now - since) / (60 * MINUTE_MS);
  return PERIODS_H.find((period) => period >= hours && period < 24) ?? 24;
}

/** The steps of the values from left to right, closed at the bottom; a gap where nothing is known. */
export function area(held: readonly (number | null)[], width: number, height: number, most: number): string {
  const step = width / Math.max(1, held.length);
  const y = (value: number): string => (height - (Math.min(value, most) / Math.max(most, 1)) * height).toFixed(1);
  let path = "";
  let isOpen = false;
  held.forEach((value, i) => {
    const [from, to] = [(i * step).toFixed(1), ((i + 1) * step).toFixed(1)];
    if (value === null) {
      if (isOpen) path += `V${height}Z`;
      isOpen = false;
      return;
    }
    path += isOpen ? `V${y(value)}H${to}` : `M${from} ${height}V${y(value)}H${to}`;
    isOpen = true;
  });
  return isOpen ? `${path}V${height}Z` : path;
}

/** The period from the first value on that is known of any pool, with some buckets at least; all of it if none is. */
export function fromFirstKnown(data: Utilization): Utilization {
  const firsts = data.pools.map(({ held }) => held.findIndex((value) => value !== null)).filter((at) => at >= 0);
  const start = firsts.length === 0 ? 0 : Math.max(0, Math.min(...firsts, data.times.length - LEAST_BUCKETS));
  if (start === 0) return data;
  const pools = data.pools.map((pool) => ({ ...pool, held: pool.held.slice(start) }));
  return { ...data, times: data.times.slice(start), pools };
}

/** Round instants of the period, in milliseconds, at most MAX_TICKS, by the clock that is `shiftMs` ahead of UTC. */
export function instants(from: number, to: number, shiftMs: number): number[] {
  const by = TICKS_MS.find((one) => (to - from) / one <= MAX_TICKS) ?? DAY_MS;
  const out: number[] = [];
  for (let at = Math.ceil((from + shiftMs) / by) * by - shiftMs; at < to; at += by) out.push(at);
  return out;
}

/** The mean share of so many slots that was in use, 0..1; null without slots or values. */
export function meanShare(held: readonly (number | null)[], numSlots: number): number | null {
  const known = held.filter((value) => value !== null);
  if (known.length === 0 || numSlots === 0) return null;
  return known.reduce((sum, value) => sum + value, 0) / known.length / numSlots;
}

/** The slots of a pool and type now; none of one that the cluster does not have (any more). */
export function slotsOf(pools: readonly PoolSlots[], { pool, slot_type }: PoolUtilization): PoolSlots {
  const found = pools.find((one) => one.pool === pool && one.slot_type === slot_type);
  return found ?? { pool, slot_type, num_slots: 0, num_slots_used: 0, num_slots_free: 0 };
}
