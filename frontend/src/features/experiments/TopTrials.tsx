import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, experimentTrials } from "../../api/queries";
import { Empty, Section } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { firstColumns } from "./trialColumns";
import { TrialTable } from "./TrialsTab";

const NUM_TOP = 5;

/** The best trials of a search with their hyperparameters; the first ones while nothing tells them apart. */
export function TopTrials({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  const isRanked = data.metric_name !== null && data.best_metric !== null;
  const sort = isRanked ? (data.metric_goal === "max" ? "-metric" : "metric") : "no";
  const query = useInfiniteQuery(experimentTrials(data.id, { sort }, NUM_TOP));
  return (
    <Section
      title={t(isRanked ? "experiment.topTrials" : "experiments.trials")}
      note={
        data.num_trials > NUM_TOP ? (
          <Link to="." search={{ tab: "trials" }}>
            {t("experiment.allTrials", { count: data.num_trials })}
          </Link>
        ) : null
      }
      testId="top-trials"
    >
      <QueryView query={query}>
        {(pages) => {
          const items = pages.pages[0]?.items ?? [];
          if (items.length === 0) return <Empty title={t("trials.none")} />;
          return (
            <TrialTable
              items={items}
              experiment={data}
              columns={firstColumns([...new Set(items.flatMap((item) => Object.keys(item.hparams)))], isRanked)}
              sort={sort}
              onSort={(next) => void navigate({ search: { tab: "trials", sort: next } })}
            />
          );
        }}
      </QueryView>
    </Section>
  );
}
