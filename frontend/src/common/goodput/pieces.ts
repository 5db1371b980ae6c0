/** Slot-seconds by class, as the pieces of a bar: always in one order, each in its own color. Pure. */
import type { TFunction } from "i18next";

import * as format from "../../lib/format";

/** Classes in the order of a bar, with their colors. Neighbors differ for every kind of color vision. */
export const CLASS_COLORS: Record<string, string> = {
  productive: "var(--run)",
  evaluation: "var(--part-forward)",
  preparing: "var(--part-bubble)",
  starting: "var(--series-3)",
  restoring: "var(--series-5)",
  saving: "var(--part-no-grad)",
  repeated: "var(--series-1)",
  stalled: "var(--series-2)",
  undetected: "var(--text-3)",
  finishing: "var(--scale-4)",
  stopping: "var(--scale-2)",
  idle: "var(--part-device)",
  abandoned: "var(--lost)",
  unmeasured: "var(--line-strong)",
};
export const PART_COLORS: Record<string, string> = {
  computation: "var(--series-0)",
  communication: "var(--series-2)",
  data: "var(--series-1)",
  bubble: "var(--part-bubble)",
  other: "var(--series-4)",
};
const NOT_LOST = ["productive", "evaluation", "unmeasured"];

export interface Piece {
  kind: string;
  slotS: number;
  /** Of all pieces, 0..1. */
  share: number;
  color: string;
}

type Amounts = Readonly<Record<string, number>>;

export const allocated = (amounts: Amounts): number => Object.values(amounts).reduce((sum, value) => sum + value, 0);

/** Classes that this dashboard does not know come last. */
export function piecesOf(amounts: Amounts, colors: Record<string, string> = CLASS_COLORS): Piece[] {
  const whole = allocated(amounts);
  const unknown = Object.keys(amounts).filter((kind) => !(kind in colors));
  return [...Object.keys(colors), ...unknown].flatMap((kind) => {
    const slotS = amounts[kind] ?? 0;
    return slotS > 0 ? [{ kind, slotS, share: slotS / whole, color: colors[kind] ?? "var(--line-strong)" }] : [];
  });
}

/** The parts of productive time, with what is in none of them; nothing where no part was measured. */
export function partsOf(classes: Amounts, parts: Amounts): Piece[] {
  const rest = (classes["productive"] ?? 0) - allocated(parts);
  return allocated(parts) > 0 ? piecesOf({ ...parts, other: Math.max(0, rest) }, PART_COLORS) : [];
}

/** Share of the time that moved no training forward, 0..1. */
export function lostShare(classes: Amounts): number {
  const kept = NOT_LOST.reduce((sum, kind) => sum + (classes[kind] ?? 0), 0);
  return 1 - kept / Math.max(allocated(classes), Number.MIN_VALUE);
}

/** Slot-hours with two significant digits; slot-seconds below a hundredth of one. */
export function slotTime(t: TFunction, slotS: number): string {
  const rounded = (value: number): string => {
    const shown = Number(value.toPrecision(2));
    return shown >= 1000 ? format.count(shown) : format.num(shown);
  };
  if (slotS < 36) return t("goodput.slotSeconds", { seconds: rounded(slotS) });
  return t("goodput.slotHours", { hours: rounded(slotS / 3600) });
}
