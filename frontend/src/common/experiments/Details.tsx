import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { useIsThere } from "../../api/parts";
import type { ExperimentDetail } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";
import { stateWord } from "../../components/StateBadge";
import { Elapsed, Stamp } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import { useTitles } from "../../lib/catalog";
import { slotsText } from "../../lib/held";
import { ModelsMade } from "../models/ModelsMade";
import { ModelsUsed } from "../models/ModelsUsed";
import { ScalingSection } from "../scaling/ScalingSection";
import { BudgetSection } from "./BudgetSection";
import { Lineage } from "./Lineage";
import { Notes } from "./Notes";
import { Order } from "./Order";

/** What an experiment is beside its results: notes, budget, lineage, order and the times of its states. */
export function Details({ experiment: data }: { experiment: ExperimentDetail }) {
  const isThere = useIsThere();
  return (
    <div className={uiCss["cols"]} data-testid="details">
      <div>
        <Notes experiment={data} />
        <Timeline experiment={data} />
        <Resources experiment={data} />
      </div>
      <div>
        <BudgetSection experiment={data} />
        <Lineage experiment={data} />
        {isThere("models") ? (
          <>
            <ModelsMade experimentId={data.id} />
            <ModelsUsed experimentId={data.id} />
          </>
        ) : null}
        <Order experiment={data} />
        <ScalingSection experiment={data} />
      </div>
    </div>
  );
}

function Timeline({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const rows: [ReactNode, ReactNode][] = [
    [
      stateWord(t, "QUEUED"),
      <span key="queued">
        <Stamp at={data.created_at} /> · <Elapsed start={data.created_at} end={data.started_at ?? data.ended_at} />
      </span>,
    ],
  ];
  if (data.started_at)
    rows.push([
      stateWord(t, "RUNNING"),
      <span key="running">
        <Stamp at={data.started_at} /> · <Elapsed start={data.started_at} end={data.ended_at} />
      </span>,
    ]);
  if (data.ended_at) rows.push([stateWord(t, data.state), <Stamp key="ended" at={data.ended_at} />]);
  return (
    <Section title={t("experiment.timeline")}>
      <KeyValues items={rows} />
    </Section>
  );
}

function Resources({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const { method } = useTitles();
  return (
    <Section title={t("experiment.resources")}>
      <KeyValues
        items={[
          [t("experiments.project"), data.project],
          [t("experiments.owner"), data.owner ?? t("experiment.noOwner")],
          [t("experiments.slots"), slotsText(t, data)],
          [t("nodes.pool"), data.pool],
          [t("queue.priority"), String(data.priority)],
          [t("experiments.searcher"), method(data.searcher)],
          ...(data.metric_name
            ? ([[t("experiment.metric"), `${data.metric_name} (${data.metric_goal ?? ""})`]] as [string, string][])
            : []),
        ]}
      />
    </Section>
  );
}
