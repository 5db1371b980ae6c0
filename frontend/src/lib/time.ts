/** Instants and ages. The server's clock counts: a browser may be minutes off. */

let offsetMs = 0;

/** Learn the server's clock from an answer's Date header (whole seconds, so ±0.5 s). */
export function learnServerTime(dateHeader: string | null, receivedAt = Date.now()): void {
  if (!dateHeader) return;
  const at = Date.parse(dateHeader);
  if (Number.isNaN(at)) return;
  const offset = at + 500 - receivedAt;
  // Within a second it is the header's own rounding; jitter would make ages jump.
  offsetMs = Math.abs(offset) < 2000 ? 0 : offset;
}

export function serverNow(): number {
  return Date.now() + offsetMs;
}

export function parseAt(at: string | null | undefined): number | null {
  if (!at) return null;
  const value = Date.parse(at);
  return Number.isNaN(value) ? null : value;
}

/** Seconds from `start` to `end` (or now), never negative; null without a start. */
export function elapsedS(start: string | null | undefined, end: string | null | undefined, now: number): number | null {
  const from = parseAt(start);
  if (from === null) return null;
  return Math.max(0, ((parseAt(end) ?? now) - from) / 1000);
}

export type TimeZone = "local" | "utc";

/** "2026-11-21 04:07:12", in the chosen zone; sortable and the same in every language. */
export function stamp(at: number, zone: TimeZone, part: "full" | "time" | "date" | "minute" = "full"): string {
  const shift = zone === "utc" ? 0 : -new Date(at).getTimezoneOffset() * 60_000;
  const iso = new Date(at + shift).toISOString();
  const suffix = zone === "utc" && part !== "date" ? " UTC" : "";
  if (part === "time") return iso.slice(11, 19) + suffix;
  if (part === "date") return iso.slice(0, 10);
  return `${iso.slice(0, 10)} ${iso.slice(11, part === "minute" ? 16 : 19)}${suffix}`;
}
