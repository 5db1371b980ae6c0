/** Days of the trend, with those in which no slot was held. Pure. */
import type { Goodput } from "../../../api/queries";

const DAY_MS = 86_400_000;

export interface Day {
  /** Of the calendar, in UTC: 2026-03-01. */
  day: string;
  classes: Record<string, number>;
}

export function everyDay({ since, days, trend }: Pick<Goodput, "since" | "days" | "trend">): Day[] {
  const known = new Map(trend.map(({ day, classes }) => [day, classes]));
  const first = Date.parse(`${since}T00:00:00Z`);
  return Array.from({ length: days }, (_, no) => {
    const day = new Date(first + no * DAY_MS).toISOString().slice(0, 10);
    return { day, classes: known.get(day) ?? {} };
  });
}
