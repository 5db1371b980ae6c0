import { useTranslation } from "react-i18next";

import type { Schemas } from "../api/client";
import { fromWire, MISSING } from "../lib/format";
import * as format from "../lib/format";
import { Reason } from "./text/Message";
import { KeyValues, Notice } from "./basics";
import { Stamp, Until } from "./Time";
import css from "./figures.module.css";
import layout from "./layout.module.css";

type Budget = Schemas["BudgetOut"];
type Limit = Schemas["BudgetLimitOut"];
type Spending = Schemas["SpendingOut"];

/** An amount of slot-hours or money: two decimals, three digits of what is below 1. */
export function amount(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) >= 1 ? value.toLocaleString("en-US", { maximumFractionDigits: 2 }) : format.num(value, 3);
}

/** What was spent, and each limit as a bar with marks where it alerts. */
export function BudgetBars({
  budget,
  spending,
  atLimit,
}: {
  budget: Budget | null;
  spending: Spending;
  atLimit: string;
}) {
  const { t } = useTranslation();
  return (
    <div data-testid="budget">
      {budget?.exhausted_reason ? (
        <Notice tone="bad" title={<Reason text={budget.exhausted_reason} parts={budget.exhausted_parts} />} />
      ) : null}
      {budget?.limits.map((limit) => (
        <LimitBar key={limit.measure} limit={limit} alertAt={budget.alert_at} />
      ))}
      <KeyValues
        items={[
          [
            t("budget.spent"),
            t("budget.spentText", {
              hours: amount(spending.slot_hours),
              cost: amount(spending.cost),
              currency: spending.currency,
            }),
          ],
          [
            t("budget.now"),
            spending.slots_held > 0
              ? t("budget.rate", {
                  count: spending.slots_held,
                  cost: amount(spending.cost_per_hour),
                  currency: spending.currency,
                })
              : t("budget.nothingHeld"),
          ],
          ...(budget
            ? ([[t("budget.at100"), atLimit]] as [string, string][])
            : [[t("budget.limits"), t("budget.none")] as [string, string]]),
        ]}
      />
    </div>
  );
}

function LimitBar({ limit, alertAt }: { limit: Limit; alertAt: number[] }) {
  const { t } = useTranslation();
  const share = fromWire(limit.share) ?? 0;
  const marks = alertAt.toSorted((a, b) => a - b);
  const tone = limit.exhausted ? "bad" : marks.some((mark) => share >= mark) ? "warn" : "run";
  const text =
    limit.measure === "deadline"
      ? t("budget.ofTime", { spent: format.duration(limit.spent * 3600), limit: format.duration(limit.limit * 3600) })
      : t("budget.of", {
          spent: amount(limit.spent),
          limit: amount(limit.limit),
          unit: limit.measure === "slot_hours" ? t("budget.slotHours") : limit.unit,
        });
  return (
    <div className={css["limit"]} data-testid={`limit-${limit.measure}`} data-share={share}>
      <div className={css["limitHead"]}>
        <span>{t(`budget.measure.${limit.measure}`)}</span>
        <span className="num">
          {text} <span className="dim">({format.pct(limit.share)})</span>
        </span>
      </div>
      <div
        className={css["limitBar"]}
        role="progressbar"
        aria-label={t(`budget.measure.${limit.measure}`)}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(Math.min(1, share) * 100)}
        aria-valuetext={text}
      >
        <span data-tone={tone} style={{ width: `${Math.min(1, Math.max(0, share)) * 100}%` }} />
        {marks.map((mark) => (
          <i
            key={mark}
            style={{ left: `${mark * 100}%` }}
            data-given={limit.alerts_given.includes(mark) || undefined}
            title={t(limit.alerts_given.includes(mark) ? "budget.alerted" : "budget.alerts", { at: format.pct(mark) })}
          />
        ))}
      </div>
      <div className={`dim ${layout["small"]}`}>
        {marks.length > 0 ? t("budget.alertsAt", { at: marks.map((mark) => format.pct(mark)).join(", ") }) : null}
        {limit.limit_at ? (
          <>
            {" · "}
            <Stamp at={limit.limit_at} /> (<Until at={limit.limit_at} />)
          </>
        ) : limit.exhausted_at ? (
          <>
            {" · "}
            {t("budget.usedUp")} <Until at={limit.exhausted_at} />
          </>
        ) : null}
        {limit.limit_at === null && limit.exhausted_at === null && marks.length === 0 ? MISSING : null}
      </div>
    </div>
  );
}
