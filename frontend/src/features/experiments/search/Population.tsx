import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { Notice, Section } from "../../../components/basics";
import { column, DataTable, numeric } from "../../../components/tables/DataTable";
import { StateBadge } from "../../../components/StateBadge";
import * as format from "../../../lib/format";
import { ancestry, bestOf, type Results } from "./searchData";

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
      <DataTable<number>
        rows={line}
        rowKey={(i) => String(results.id[i])}
        label={t("population.schedule")}
        cards={false}
        columns={[
          numeric("generation", t("population.generation"), (i) => results.generation[i]),
          numeric("no", t("trials.trial"), (i) => (
            <Link to="/trials/$trialId" params={{ trialId: String(results.id[i]) }}>
              {results.no[i]}
            </Link>
          )),
          column("state", t("experiments.state"), (i) => <StateBadge state={results.state[i] ?? ""} />),
          numeric("metric", results.metric_name ?? t("experiment.metric"), (i) => format.num(metric[i] ?? null)),
          ...results.parameters.map((parameter, column) =>
            numeric(parameter.name, parameter.name, (i: number) => {
              const raw = results.values[column]?.[i] ?? null;
              return typeof raw === "number" ? format.num(raw) : (raw ?? "–");
            }),
          ),
        ]}
      />
    </Section>
  );
}
