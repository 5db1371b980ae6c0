import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, experimentSearch } from "../../../api/queries";
import { Empty, Section, Skeleton } from "../../../components/basics";
import { QueryView } from "../../../components/QueryView";
import { BudgetSection } from "../../../common/experiments/BudgetSection";
import { SectionIndex } from "../../../components/SectionIndex";
import { RungView } from "./RungView";
import { SearchLimits } from "./SearchLimits";

const loadCharts = () => import("./SearchCharts");
const SearchCharts = lazy(async () => ({ default: (await loadCharts()).SearchCharts }));

/** Fetch the code of the tab's charts, which nothing else on the page needs. */
export const preloadSearchTab = (): Promise<unknown> => loadCharts();

export function SearchTab({ experiment }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const query = useQuery(experimentSearch(experiment.id));
  return (
    <QueryView query={query}>
      {(data) => (
        <SectionIndex>
          <SearchLimits experiment={experiment} search={data} />
          {data.rungs.length > 0 ? (
            <Section guide="concepts/search#rungs-and-brackets" title={t("search.rungs")}>
              {data.rungs.some((rung) => rung.trials.length > 0) ? (
                <RungView search={data} />
              ) : (
                <Empty title={t("search.noRung")}>{t("search.noRungHint")}</Empty>
              )}
            </Section>
          ) : null}
          {experiment.budget ? <BudgetSection experiment={experiment} /> : null}
          {data.metric_name === null ? null : (
            <Suspense fallback={<Skeleton />}>
              <SearchCharts experiment={experiment} />
            </Suspense>
          )}
        </SectionIndex>
      )}
    </QueryView>
  );
}
