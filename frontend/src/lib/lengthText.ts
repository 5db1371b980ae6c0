import "../i18n/en/trials";

import type { TFunction } from "i18next";

import { num } from "./format";

/** A training length in words: "1 epoch", "500 steps". */
export function lengthText(t: TFunction, value: number, unit: string): string {
  return unit === "epochs" || unit === "steps" ? t(`search.length.${unit}`, { count: value }) : `${num(value)} ${unit}`.trim();
}
