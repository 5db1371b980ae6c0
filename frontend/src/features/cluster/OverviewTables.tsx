import { useTranslation } from "react-i18next";

import type { Experiment } from "../../api/queries";
import { Headline } from "../../common/headline/Headline";
import { Meter, TrialsBar } from "../../components/basics";
import { DataTable } from "../../components/tables/DataTable";
import { ExperimentLink } from "../../components/ExperimentLink";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Elapsed } from "../../components/Time";
import { useNow } from "../../components/useNow";
import * as format from "../../lib/format";
import { shownState, slotsText } from "../../lib/held";
import { elapsedS } from "../../lib/time";

/** What runs now, with its curve and how long it still takes. */
export function RunningTable({ items }: { items: Experiment[] }) {
  const { t } = useTranslation();
  const now = useNow();
  const eta = (item: Experiment): string => {
    const ran = elapsedS(item.started_at, null, now);
    if (shownState(item) === "WAITING" || ran === null || !item.progress || item.progress < 0.02 || item.progress >= 1)
      return format.MISSING;
    return `≈ ${format.duration((ran / item.progress) * (1 - item.progress))}`;
  };
  return (
    <DataTable
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.running")}
      testId="running"
      columns={[
        { id: "name", header: t("experiments.name"), lead: true, cell: (item) => <ExperimentLink item={item} /> },
        { id: "state", header: t("experiments.state"), cell: (item) => <StateBadge state={shownState(item)} plain /> },
        {
          id: "progress",
          header: t("experiments.progress"),
          width: 190,
          cell: (item) => <Meter value={item.progress} label={t("experiments.progress")} />,
        },
        {
          id: "trials",
          header: t("experiments.trials"),
          phone: false,
          width: 120,
          cell: (item) =>
            item.only_trial_id ? (
              "1"
            ) : (
              <TrialsBar byState={item.num_trials_by_state} planned={item.num_trials_planned} />
            ),
        },
        { id: "metric", header: t("experiments.metric"), cell: (item) => <Headline item={item} /> },
        {
          id: "slots",
          header: t("experiments.slots"),
          phone: false,
          align: "right",
          cell: (item) => slotsText(t, item),
        },
        {
          id: "for",
          header: t("experiments.elapsed"),
          align: "right",
          cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} />,
        },
        { id: "eta", header: t("experiments.eta"), align: "right", cell: eta },
      ]}
    />
  );
}

/** What ended last. */
export function RecentTable({ items }: { items: Experiment[] }) {
  const { t } = useTranslation();
  return (
    <DataTable
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.recent")}
      columns={[
        { id: "name", header: t("experiments.name"), lead: true, cell: (item) => <ExperimentLink item={item} /> },
        { id: "state", header: t("experiments.state"), cell: (item) => <StateBadge state={item.state} plain /> },
        { id: "metric", header: t("experiments.metric"), cell: (item) => <Headline item={item} /> },
        {
          id: "for",
          header: t("experiments.elapsed"),
          align: "right",
          cell: (item) => <Elapsed start={item.started_at} end={item.ended_at} />,
        },
        { id: "at", header: t("experiments.ended"), align: "right", cell: (item) => <Ago at={item.ended_at} /> },
      ]}
    />
  );
}
