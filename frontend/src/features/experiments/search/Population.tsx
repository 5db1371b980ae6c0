import { useTranslation } from "react-i18next";

import { Notice, Section } from "../../../components/basics";
import { numeric } from "../../../components/tables/DataTable";
import { ancestry, bestOf, type Results } from "./searchData";
import { TrialTable } from "./TrialTable";

/** Which trials the best one of a population came from, and with which hyperparameters each trained. */
export function Population({ results, metric }: { results: Results; metric: (number | null)[] }) {
  const { t } = useTranslation();
  const best = bestOf(metric, results.metric_goal);
  const num = results.parent_no.filter((no) => no !== null).length;
  if (num === 0 || best < 0) return null;
  const line = ancestry(results, best);
  return (
    <Section
      guide="concepts/search#pbt"
      title={t("population.schedule")}
      note={`${t("population.scheduleNote", { count: line.length })} · ${t("population.clones", { count: num })}`}
    >
      {line.length === 1 ? <Notice title={t("population.noClone")} /> : null}
      <TrialTable
        results={results}
        metric={metric}
        shown={line}
        label={t("population.schedule")}
        first={[numeric("generation", t("population.generation"), (i) => results.generation[i])]}
      />
    </Section>
  );
}
