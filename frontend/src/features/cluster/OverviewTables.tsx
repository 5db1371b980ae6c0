import { useTranslation } from "react-i18next";

import type { Experiment } from "../../api/queries";
import { Headline } from "../../common/headline/Headline";
import { Meter, TrialsBar } from "../../components/basics";
import { column, DataTable, lead, numeric } from "../../components/tables/DataTable";
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
    <DataTable<Experiment>
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.running")}
      testId="running"
      columns={[
        lead("name", t("experiments.name"), (item) => <ExperimentLink item={item} />),
        column("state", t("experiments.state"), (item) => <StateBadge state={shownState(item)} plain />),
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
        column("metric", t("experiments.metric"), (item) => <Headline item={item} />),
        numeric("slots", t("experiments.slots"), (item) => slotsText(t, item), { phone: false }),
        numeric("for", t("experiments.elapsed"), (item) => <Elapsed start={item.started_at} end={item.ended_at} />),
        numeric("eta", t("experiments.eta"), eta),
      ]}
    />
  );
}

/** What ended last. */
export function RecentTable({ items }: { items: Experiment[] }) {
  const { t } = useTranslation();
  return (
    <DataTable<Experiment>
      rows={items}
      rowKey={(item) => item.id}
      label={t("overview.recent")}
      columns={[
        lead("name", t("experiments.name"), (item) => <ExperimentLink item={item} />),
        column("state", t("experiments.state"), (item) => <StateBadge state={item.state} plain />),
        column("metric", t("experiments.metric"), (item) => <Headline item={item} />),
        numeric("for", t("experiments.elapsed"), (item) => <Elapsed start={item.started_at} end={item.ended_at} />),
        numeric("at", t("experiments.ended"), (item) => <Ago at={item.ended_at} />),
      ]}
    />
  );
}
