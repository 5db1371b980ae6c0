import type { TFunction } from "i18next";

import { duration, num, si } from "../format";

const UNITS = ["epochs", "steps", "samples"] as const;

/** A training length in words: "1 epoch", "500 steps", "1.2 M samples", "1 h 5 min". */
export function lengthText(t: TFunction, value: number, unit: string): string {
  if (unit === "seconds") return duration(value);
  const known = UNITS.find((name) => name === unit);
  return known
    ? t(`search.length.${known}`, { count: value, formatted: known === "samples" ? si(value) : num(value) })
    : `${num(value)} ${unit}`.trim();
}
