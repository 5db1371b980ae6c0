import "../../i18n/en/experiments";
import "../../i18n/en/trials";

import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import { type ExperimentDetail, experimentSearch, trialMetrics } from "../../api/queries";
import { type Line, SeriesChart, type Source } from "../../charts/SeriesChart";
import { Empty, Section, Skeleton } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { toColumns, type WireSeries } from "../../lib/series";
import { BudgetSection } from "./BudgetSection";
import { RungView } from "./RungView";

const MAX_TRIALS = 50;
const SearchCharts = lazy(async () => ({ default: (await import("./SearchCharts")).SearchCharts }));

export function SearchTab({ experiment }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const query = useQuery(experimentSearch(experiment.id));
  return (
    <QueryView query={query}>
      {(data) => (
        <>
          {data.rungs.length > 0 ? (
            <Section title={t("search.rungs")} note={t("search.created", { created: data.num_trials_created, planned: data.num_trials_planned ?? "–" })}>
              {data.rungs.some((rung) => rung.trials.length > 0) ? <RungView search={data} /> : <Empty title={t("search.noRung")}>{t("search.noRungHint")}</Empty>}
            </Section>
          ) : null}
          <Curves experiment={experiment} metric={data.metric_name ?? "val/loss"} />
          {experiment.budget ? <BudgetSection experiment={experiment} /> : null}
          {data.metric_name === null ? null : (
            <Suspense fallback={<Skeleton />}>
              <SearchCharts experiment={experiment} />
            </Suspense>
          )}
        </>
      )}
    </QueryView>
  );
}

/** Learning curves of the trials. Points stay outside of component state. */
class TrialCurves implements Source {
  private held: Line[] = [];
  private answered = false;
  private failed: Error | null = null;
  private readonly listeners = new Set<() => void>();
  shown = 0;
  all = 0;

  constructor(
    private readonly experimentId: number,
    private readonly metric: string,
    private readonly best: number | null,
    private readonly label: (no: number, isBest: boolean) => string,
  ) {}

  read = async (): Promise<void> => {
    try {
      const reply = await unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/series", {
          params: { path: { experiment_id: this.experimentId }, query: { name: this.metric, max_points: 200, max_trials: MAX_TRIALS } },
        }),
      );
      this.shown = reply.items.length;
      this.all = reply.num_trials;
      // The best comes first in the legend, which names only a few.
      const items = reply.items.toSorted((a, b) => Number(b.trial_id === this.best) - Number(a.trial_id === this.best));
      this.held = items.map((item) => ({
        key: String(item.trial_id),
        label: this.label(item.trial_no, item.trial_id === this.best),
        columns: toColumns(item.series as WireSeries),
        color: item.trial_no,
        faint: reply.items.length > 6 && item.trial_id !== this.best,
      }));
      this.failed = null;
    } catch (error) {
      this.failed = error instanceof Error ? error : new Error(String(error));
    }
    this.answered = true;
    for (const listener of this.listeners) listener();
  };

  lines = (): Line[] => this.held;
  ready = (): boolean => this.answered;
  error = (): Error | null => this.failed;
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

function Curves({ experiment, metric }: { experiment: ExperimentDetail; metric: string }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  const chosen = search.metric ?? metric;
  const sample = experiment.best_trial_id;
  const names = useQuery({ ...trialMetrics(sample ?? 0), enabled: sample !== null }).data?.names ?? [];
  const curves = useMemo(
    () => new TrialCurves(experiment.id, chosen, experiment.best_trial_id, (no, isBest) => `${t("trial.no", { no })}${isBest ? " ★" : ""}`),
    [experiment.id, chosen, experiment.best_trial_id, t],
  );
  const [note, setNote] = useState({ shown: 0, all: 0 });
  useEffect(() => {
    void curves.read();
    const end = curves.subscribe(() => setNote((n) => (n.shown === curves.shown && n.all === curves.all ? n : { shown: curves.shown, all: curves.all })));
    const endLive = live.subscribe(`experiment:${experiment.id}`, coalesce(curves.read, 1000));
    return () => {
      end();
      endLive();
    };
  }, [curves, experiment.id]);
  return (
    <Section title={t("search.curves")} note={note.all > note.shown ? t("search.someCurves", note) : t("search.allCurves", { count: note.shown })}>
      <Select
        aria-label={t("experiment.metric")}
        w={220}
        mb="xs"
        searchable
        allowDeselect={false}
        value={chosen}
        data={[...new Set([chosen, metric, ...names])]}
        onChange={(value) => void navigate({ search: (before) => ({ ...before, metric: value === metric ? undefined : (value ?? undefined) }), replace: true })}
      />
      <SeriesChart id="learning-curves" title={chosen} metric={chosen} source={curves} height={280} />
    </Section>
  );
}
