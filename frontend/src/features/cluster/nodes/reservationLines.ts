/** Reservations of nodes as lines of a chart: a line for each node, a bar for each reservation. Pure. */
import type { NodeReservation } from "../../../api/queries";
import { parseAt, stamp, type TimeZone } from "../../../lib/time";

const HOUR_MS = 3_600_000;
/** Distances between ticks, in hours. */
const STEPS_H = [1, 2, 3, 6, 12, 24, 48, 168, 336, 720, 2160, 8760, 87_600];
const MAX_TICKS = 6;

export interface Bar {
  reservation: NodeReservation;
  /** In percent of the width. */
  left: number;
  width: number;
}

export interface Tick {
  /** In percent of the width. */
  left: number;
  label: string;
}

export interface Lines {
  lines: { name: string; bars: Bar[] }[];
  ticks: Tick[];
}

/** How long a reservation is, as people type it: "8h", "1d12h". */
export function lengthOf({ starts_at, ends_at }: Pick<NodeReservation, "starts_at" | "ends_at">): string {
  let left = Math.round(((parseAt(ends_at) ?? 0) - (parseAt(starts_at) ?? 0)) / 1000);
  const parts = Object.entries({ d: 86_400, h: 3600, min: 60, s: 1 }).map(([unit, seconds]) => {
    const num = Math.floor(left / seconds);
    left -= num * seconds;
    return num > 0 ? `${num}${unit}` : "";
  });
  return parts.join("");
}

/** The lines from now (ms) to the last end, nodes by name. */
export function reservationLines(found: readonly NodeReservation[], now: number, zone: TimeZone): Lines {
  const end = Math.max(now + HOUR_MS, ...found.map((one) => parseAt(one.ends_at) ?? now));
  const percent = (at: number): number => (100 * (Math.min(end, Math.max(now, at)) - now)) / (end - now);
  const nodes = new Map<string, Bar[]>();
  for (const reservation of found) {
    const left = percent(parseAt(reservation.starts_at) ?? now);
    const width = percent(parseAt(reservation.ends_at) ?? now) - left;
    for (const name of reservation.nodes) nodes.set(name, [...(nodes.get(name) ?? []), { reservation, left, width }]);
  }
  return {
    lines: [...nodes].toSorted(([a], [b]) => a.localeCompare(b)).map(([name, bars]) => ({ name, bars })),
    ticks: ticksOf(now, end, zone).map((at) => ({ left: percent(at), label: labelOf(at, end - now, zone) })),
  };
}

function ticksOf(now: number, end: number, zone: TimeZone): number[] {
  const stepMs = HOUR_MS * (STEPS_H.find((hours) => (end - now) / (hours * HOUR_MS) <= MAX_TICKS) ?? 87_600);
  // Steps count from midnight of the zone that is shown.
  const offset = zone === "utc" ? 0 : new Date(now).getTimezoneOffset() * 60_000;
  const first = Math.ceil((now - offset) / stepMs) * stepMs + offset;
  return Array.from({ length: MAX_TICKS + 1 }, (_, index) => first + index * stepMs).filter((at) => at < end);
}

function labelOf(at: number, spanMs: number, zone: TimeZone): string {
  const full = stamp(at, zone, "minute");
  const [date = "", time = ""] = full.split(" ");
  if (spanMs > 6 * 24 * HOUR_MS) return date.slice(5);
  return spanMs > 24 * HOUR_MS ? `${date.slice(5)} ${time}` : time;
}
