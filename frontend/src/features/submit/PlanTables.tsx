import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import * as format from "../../lib/format";
import css from "./submit.module.css";

type Strategy = Schemas["PlannedStrategyOut"];
type Traffic = Schemas["PlannedTrafficOut"];
type Memory = Schemas["MemoryOut"];

const PARTS = ["parameters", "gradients", "optimizer", "activations", "buffers"] as const;
const COLORS = {
  parameters: "var(--series-0)",
  gradients: "var(--series-1)",
  optimizer: "var(--series-5)",
  activations: "var(--series-3)",
  buffers: "var(--series-2)",
} as const;

/** A step's time with its interval, for texts. */
export function stepText(t: TFunction, { value, low, high, n }: NonNullable<Strategy["step_ms"]>): string {
  if (low === null || high === null) return t("planner.stepAlone", { value: format.ms(value), n });
  return t("planner.stepValue", { value: format.ms(value), low: format.ms(low), high: format.ms(high), n });
}

/** Memory cut into its parts: a bar, and each part with its number. */
export function MemoryParts({ memory }: { memory: Memory }) {
  const { t } = useTranslation();
  const there = PARTS.filter((part) => memory[part] > 0);
  const text = there.map((part) => `${t(`planner.part.${part}`)} ${format.bytes(memory[part])}`).join(", ");
  return (
    <div data-testid="planner-memory">
      <div className={css["memory"]} role="img" aria-label={text}>
        {there.map((part) => (
          <span
            key={part}
            style={{
              width: `${memory.total > 0 ? (memory[part] / memory.total) * 100 : 0}%`,
              background: COLORS[part],
            }}
          />
        ))}
      </div>
      <ul className={css["parts"]}>
        {PARTS.map((part) => (
          <li key={part}>
            <i style={{ background: COLORS[part] }} />
            {t(`planner.part.${part}`)} <b>{format.bytes(memory[part])}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What is sent, by process group and kind. */
export function TrafficTable({ traffic }: { traffic: Traffic[] }) {
  const { t } = useTranslation();
  const columns: Column<Traffic>[] = [
    lead("group", t("planner.group"), (one) => <b>{one.group}</b>),
    column("kind", t("planner.kind"), (one) => <span className="mono">{one.kind}</span>),
    numeric("members", t("planner.members"), (one) => one.size),
    numeric("count", t("planner.count"), (one) => format.num(one.count, 3)),
    numeric("bytes", t("planner.bytes"), (one) => format.bytes(one.num_bytes)),
  ];
  return (
    <DataTable
      rows={traffic}
      columns={columns}
      rowKey={(one) => `${one.group} ${one.kind}`}
      label={t("planner.traffic")}
      testId="planner-traffic"
    />
  );
}

/** The document's strategy beside those that train the same curve. */
export function StrategyTable({ strategies }: { strategies: Strategy[] }) {
  const { t } = useTranslation();
  const fits = (one: Strategy): string =>
    one.fits === null ? t("planner.maybe") : one.fits ? t("planner.yes") : t("planner.no");
  const columns: Column<Strategy>[] = [
    lead("kind", t("planner.strategy"), (one) => (
      <>
        <b className="mono">{one.kind}</b>
        {one.is_chosen ? <div className="dim">{t("planner.chosen")}</div> : null}
        {one.problem ? <div className="dim">{one.problem}</div> : null}
      </>
    )),
    numeric("memory", t("planner.total"), (one) => (one.memory ? format.bytes(one.memory.total) : format.MISSING)),
    column("fits", t("planner.doesFit"), (one) => (one.memory ? fits(one) : format.MISSING)),
    numeric("link", t("planner.link"), (one) => (one.memory ? format.bytes(one.link_bytes) : format.MISSING)),
    numeric("step", t("planner.time"), (one) =>
      one.step_ms ? (
        <span title={stepText(t, one.step_ms)}>{format.ms(one.step_ms.value)}</span>
      ) : one.memory ? (
        t("planner.maybe")
      ) : (
        format.MISSING
      ),
    ),
  ];
  return (
    <DataTable
      rows={strategies}
      columns={columns}
      rowKey={(one) => one.kind}
      label={t("planner.strategies")}
      testId="planner-strategies"
    />
  );
}
