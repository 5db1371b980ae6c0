import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { Experiment } from "../../../api/queries";
import { Headline } from "../../../common/headline/Headline";
import { Meter, TrialsBar } from "../../../components/basics";
import { FlagBadge, StateBadge } from "../../../components/StateBadge";
import { Ago, Elapsed } from "../../../components/Time";
import tableCss from "../../../components/tables/dataTable.module.css";
import uiCss from "../../../components/ui.module.css";
import * as format from "../../../lib/format";
import { shownState, slotsText } from "../../../lib/held";
import { isTerminal } from "../../../lib/states";
import { useTitles } from "../../../lib/catalog";
import css from "./table.module.css";
import { isBuiltIn, labelText, valueLabel } from "./tableColumns";
import layout from "../../../components/layout.module.css";

export interface Narrow {
  onProject: (project: string) => void;
  onLabel: (label: string) => void;
}

/** A head in words; of values, what they are of stands small behind. */
export function headText(t: TFunction, id: string): { name: string; of: string } {
  if (!isBuiltIn(id)) {
    const { what, of } = valueLabel(id);
    return { name: what, of: t(`table.of.${of}` as "table.of.last") };
  }
  if (id === "notes" || id === "started" || id === "ended" || id === "priority")
    return { name: t(`table.head.${id}`), of: "" };
  return { name: t(`experiments.${id}`), of: "" };
}

type Value = Experiment["values"] extends infer V ? (V extends Record<string, infer One> ? One : never) : never;

export function valueText(id: string, value: Value | undefined): string {
  if (value === null || value === undefined) return format.MISSING;
  if (typeof value === "number" || value === "NaN" || value === "Infinity" || value === "-Infinity")
    return id.startsWith("metric.")
      ? format.metric(valueLabel(id).what, value as format.WireNumber)
      : format.num(value as format.WireNumber);
  return String(value);
}

/** What stands in a cell, but for the name, which the table shows itself. */
export function cell(t: TFunction, id: string, item: Experiment, narrow: Narrow): ReactNode {
  if (!isBuiltIn(id)) {
    const text = valueText(id, item.values?.[id]);
    return text.length > 12 ? <span title={text}>{text}</span> : text;
  }
  switch (id) {
    case "name":
      return item.name;
    case "state":
      return (
        <span title={item.standstill?.text ?? item.reason}>
          <StateBadge state={shownState(item)} /> {item.standstill ? <FlagBadge flag="STALLED" short /> : null}
          {item.is_quiet ? <FlagBadge flag="QUIET" short /> : null}
        </span>
      );
    case "labels":
      return (
        <span className={css["tags"]}>
          {Object.entries(item.labels).map(([name, value]) => (
            <button
              key={name}
              type="button"
              className={uiCss["tag"]}
              title={t("experiments.onlyLabel", { label: labelText(name, value) })}
              onClick={() => narrow.onLabel(labelText(name, value))}
            >
              {labelText(name, value)}
            </button>
          ))}
        </span>
      );
    case "searcher":
      return <MethodTitle name={item.searcher} />;
    case "trials":
      return <Trials item={item} />;
    case "metric":
      return <Headline item={item} />;
    case "step":
      return item.headline ? <span className="num">{format.count(item.headline.step)}</span> : format.MISSING;
    case "best":
      return item.best_metric === null ? (
        format.MISSING
      ) : (
        <span title={item.metric_name ?? ""}>
          {format.num(item.best_metric)} <span className="dim mono">{item.metric_name ?? ""}</span>
        </span>
      );
    case "progress":
      return <Progress item={item} />;
    case "slots":
      return slotsText(t, item);
    case "project":
      return (
        <button
          type="button"
          className={tableCss["sort"]}
          onClick={() => narrow.onProject(item.project)}
          title={t("experiments.onlyProject", { project: item.project })}
        >
          {item.project}
        </button>
      );
    case "owner":
      return item.owner ?? format.MISSING;
    case "elapsed":
      return <Elapsed start={item.started_at} end={item.ended_at} />;
    case "created":
      return <Ago at={item.created_at} />;
    case "started":
      return item.started_at ? <Ago at={item.started_at} /> : format.MISSING;
    case "ended":
      return item.ended_at ? <Ago at={item.ended_at} /> : format.MISSING;
    case "priority":
      return item.priority;
    case "notes":
      return <span title={item.notes}>{item.notes.split("\n", 1)[0]}</span>;
  }
}

function MethodTitle({ name }: { name: string }) {
  return useTitles().method(name);
}

/** How many trials there are, then their states: the number is never cut. */
function Trials({ item }: { item: Experiment }) {
  if (item.only_trial_id) return <span className="num">1</span>;
  const planned = item.num_trials_planned;
  const text =
    planned !== null && planned > item.num_trials ? `${item.num_trials}/${planned}` : String(item.num_trials);
  return (
    <span className={css["progress"]}>
      <span className={`num ${layout["nowrap"]}`}>{text}</span>
      <TrialsBar byState={item.num_trials_by_state} planned={planned} />
    </span>
  );
}

/** How far it is while it goes on: of a search its trials. */
function Progress({ item }: { item: Experiment }) {
  const { t } = useTranslation();
  if (isTerminal(item.state)) return item.only_trial_id ? null : <Trials item={item} />;
  if (item.state === "QUEUED") return null;
  if (!item.only_trial_id) return <Trials item={item} />;
  if (item.progress === null) return format.MISSING;
  return (
    <span className={css["progress"]}>
      <span className={`num ${layout["nowrap"]}`}>{format.pct(item.progress)}</span>
      <Meter value={item.progress} label={t("experiments.progress")} text="" />
    </span>
  );
}
