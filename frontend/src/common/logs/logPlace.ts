/** What a reader types to go somewhere in a log: a line, a part, or a time. */
import type { TimeZone } from "../../lib/time";

export type LogPlace = { no: number } | { fraction: number } | { time: string };

/**
 * "1200" or "1,200" is a line counted from 1 as shown, "50%" a part, "14:05" or "14:05:30" a time of the day of
 * `near` (ms), "2026-11-21 14:05" a time; times are in `zone`. Null: none of these.
 */
export function parsePlace(text: string, zone: TimeZone, near: number): LogPlace | null {
  const typed = text.trim();
  const part = /^(\d+(?:\.\d+)?)\s*%$/.exec(typed);
  if (part) return Number(part[1]) <= 100 ? { fraction: Number(part[1]) / 100 } : null;
  if (/^\d{1,3}(?:[, ]?\d{3})*$|^\d{1,12}$/.test(typed)) {
    const no = Number(typed.replaceAll(/[, ]/g, ""));
    return no >= 1 ? { no: no - 1 } : null;
  }
  const at = /^(?:(\d{4})-(\d{2})-(\d{2})[ T])?(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(typed);
  if (!at) return null;
  const [hours, minutes, seconds] = [Number(at[4]), Number(at[5]), Number(at[6] ?? 0)];
  if (hours > 23 || minutes > 59 || seconds > 59) return null;
  const day = new Date(near);
  const utc = zone === "utc";
  const [year, month, date] = at[1]
    ? [Number(at[1]), Number(at[2]) - 1, Number(at[3])]
    : utc
      ? [day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate()]
      : [day.getFullYear(), day.getMonth(), day.getDate()];
  const moment = utc
    ? new Date(Date.UTC(year, month, date, hours, minutes, seconds))
    : new Date(year, month, date, hours, minutes, seconds);
  // A date such as 31 February would silently be another one.
  if ((utc ? moment.getUTCDate() : moment.getDate()) !== date) return null;
  return { time: moment.toISOString() };
}

/** Where `text` stands in `line`, in any case: [start, end) pairs, at most `limit`. */
export function occurrences(line: string, text: string, limit = 50): [number, number][] {
  if (text === "") return [];
  const found: [number, number][] = [];
  const [hay, needle] = [line.toLowerCase(), text.toLowerCase()];
  if (hay.length !== line.length) return found; // positions would not be those of the line
  for (let at = hay.indexOf(needle); at >= 0 && found.length < limit; at = hay.indexOf(needle, at + needle.length))
    found.push([at, at + needle.length]);
  return found;
}
