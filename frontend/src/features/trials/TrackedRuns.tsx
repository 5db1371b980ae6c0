import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { trackedRuns, type TrialDetail } from "../../api/queries";
import type { components } from "../../api/schema.gen";
import { KeyValues, Section } from "../../components/basics";
import { column, DataTable, lead } from "../../components/tables/DataTable";
import { Elapsed } from "../../components/Time";

type TrackedRun = components["schemas"]["TrackedRunOut"];

/** Runs that the script has started with MLflow: parameters and tags of the trial's own, and its child runs. */
export function TrackedRuns({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const page = useQuery(trackedRuns(trial.id)).data;
  if (page === undefined || page.items.length === 0) return null;
  // MLflow's, and what TensorBoard's `add_hparams` has recorded.
  const own = page.items.filter((run) => run.label === "");
  // A run that the script has begun without a client has a curve, and nothing to list.
  const children = page.items.filter(
    (run) => run.label !== "" && (run.folder !== "" || Object.keys(run.params).length > 0),
  );
  const tags = own.flatMap((run) => Object.entries(run.tags)).filter(([key]) => !key.startsWith("mlflow."));
  return (
    <>
      {own
        .filter((run) => Object.keys(run.params).length > 0)
        .map((run) => (
          <Section
            key={run.run_id}
            title={t("tracked.params")}
            note={t("tracked.of", { name: run.name })}
            testId="script-params"
          >
            <KeyValues items={Object.entries(run.params)} />
          </Section>
        ))}
      {tags.length > 0 ? (
        <Section title={t("tracked.tags")} testId="script-tags">
          <KeyValues items={tags} />
        </Section>
      ) : null}
      {children.length > 0 ? (
        <Section title={t("tracked.runs")} note={page.next ? t("tracked.first", { count: page.items.length }) : null}>
          <DataTable<TrackedRun>
            rows={children}
            rowKey={(run) => run.run_id}
            label={t("tracked.runs")}
            testId="tracked-runs"
            columns={[
              lead("run", t("tracked.run"), (run) => <b>{run.name}</b>),
              column("status", t("tracked.status"), (run) => run.status),
              column("ran", t("tracked.ran"), (run) => <Elapsed start={run.started_at} end={run.ended_at} />),
              column("params", t("tracked.params"), (run) => <Params run={run} />),
            ]}
          />
        </Section>
      ) : null}
    </>
  );
}

function Params({ run }: { run: TrackedRun }) {
  const text = Object.entries(run.params)
    .map(([key, value]) => `${key}=${value}`)
    .join("  ");
  return (
    <span className="mono" title={text}>
      {text.length > 120 ? `${text.slice(0, 120)}…` : text}
    </span>
  );
}
