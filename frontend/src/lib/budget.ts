/** A budget as text in a form, and back. Pure. */
import type { Schemas } from "../api/client";

export interface Draft {
  slotHours: number | string;
  cost: number | string;
  deadline: string;
  /** Per cent, separated by commas: "50, 90". */
  alertAt: string;
}

export const DEFAULT_ALERTS = [0.5, 0.9];

const percent = (share: number): string => String(Number((share * 100).toPrecision(6)));

export function draftOf(budget: Schemas["BudgetOut"] | null): Draft {
  const limit = (measure: string) => budget?.limits.find((entry) => entry.measure === measure);
  return {
    slotHours: limit("slot_hours")?.limit ?? "",
    cost: limit("cost")?.limit ?? "",
    deadline: limit("deadline")?.limit_at ?? "",
    alertAt: (budget?.alert_at ?? DEFAULT_ALERTS).map(percent).join(", "),
  };
}

/** What to send; null without a limit. Not ok: a threshold is no per cent above 0 and below 100. */
export function parseDraft(draft: Draft): { ok: true; body: Schemas["Budget"] | null } | { ok: false; wrong: string } {
  const alerts: number[] = [];
  for (const part of draft.alertAt.split(/[,，、;\s]+/).filter((text) => text !== "" && text !== "%")) {
    const value = Number(part.replace(/%$/, ""));
    if (!(value > 0 && value < 100)) return { ok: false, wrong: part };
    alerts.push(Number((value / 100).toPrecision(6)));
  }
  const number = (value: number | string): number | undefined =>
    typeof value === "number" && value > 0 ? value : undefined;
  const slotHours = number(draft.slotHours);
  const cost = number(draft.cost);
  const deadline = draft.deadline.trim() || undefined;
  if (slotHours === undefined && cost === undefined && deadline === undefined) return { ok: true, body: null };
  return { ok: true, body: { slot_hours: slotHours, cost, deadline, alert_at: alerts.toSorted((a, b) => a - b) } };
}
