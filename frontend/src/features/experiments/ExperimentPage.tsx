import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { experiment, type ExperimentDetail, experimentEvents, firstWaiting, me } from "../../api/queries";
import { Code, KeyValues, Meter, Notice, PageHead, Section, Stats } from "../../components/basics";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { Events } from "../../components/Events";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Reason, Message } from "../../components/Message";
import { StateBadge, stateWord } from "../../components/StateBadge";
import { Tabs } from "../../components/Tabs";
import { Ago, Elapsed, Stamp } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import { mayChange } from "../../lib/access";
import * as format from "../../lib/format";
import { shownState, slotsText } from "../../lib/held";
import { ScalingSection } from "../../common/scaling/ScalingSection";
import { BudgetSection } from "./BudgetSection";
import { CheckpointsTab } from "./CheckpointsPage";
import { ExperimentActions } from "../../common/experiments/ExperimentActions";
import { UnmanagedBadge } from "../../common/experiments/UnmanagedBadge";
import { NotesField, NotesText } from "../../common/experiments/Notes";
import { Origin } from "../../common/experiments/Origin";
import { Lineage } from "./Lineage";
import { LogsTab } from "./LogsTab";
import { Order } from "./Order";
import { SearchTab } from "./SearchTab";
import { BestTrial, TrialsTab } from "./TrialsTab";
import layout from "../../components/layout.module.css";

const TABS = ["overview", "trials", "search", "logs", "checkpoints", "config", "events"] as const;

export function ExperimentPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId" });
  const id = Number(experimentId);
  const query = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["experiment", id], ["scaling", id]);
  return <QueryView query={query}>{(data) => <ExperimentView experiment={data} />}</QueryView>;
}

function ExperimentView({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const events = useInfiniteQuery({ ...experimentEvents(data.id), enabled: search.tab === "events" });
  const tabs = TABS.filter((tab) => tab !== "search" || data.only_trial_id === null);
  const tab = tabs.find((name) => name === search.tab) ?? "overview";
  return (
    <>
      <PageHead
        guide="guides/dashboard#an-experiment-which-trial-is-best"
        title={data.name}
        badge={
          <>
            <StateBadge state={shownState(data)} />
            <UnmanagedBadge client={data.unmanaged} />
          </>
        }
        actions={<ExperimentActions experiment={data} />}
        sub={
          <>
            <span className="num">#{data.id}</span>
            <span>{data.project}</span>
            {data.owner ? <span>{data.owner}</span> : null}
            <span>
              {t("experiments.created")} <Ago at={data.created_at} />
            </span>
            {Object.entries(data.labels).map(([key, value]) => (
              <span key={key} className="mono">
                {key}={value}
              </span>
            ))}
            {data.archived_at ? <span>{t("experiments.isArchived")}</span> : null}
            <Origin experiment={data} />
          </>
        }
      />
      {data.state === "FAILED" ? (
        <Notice
          tone="bad"
          title={<Message kind="terminations" code={data.termination} text={data.reason || t("trial.failed")} />}
        />
      ) : data.reason && (data.state !== "RUNNING" || data.desired !== "run") && data.state !== "COMPLETED" ? (
        <Notice>
          <Message kind="terminations" code={data.termination} text={data.reason} />
        </Notice>
      ) : null}
      {data.notices.map((notice) => (
        <Notice key={notice.text} tone="warn">
          <span data-testid="notice">
            <Reason text={notice.text} parts={notice.parts} />
          </span>
        </Notice>
      ))}
      <Waits experiment={data} />
      <Tabs
        active={tab}
        label={data.name}
        tabs={tabs.map((name) => ({ id: name, label: t(`experiment.tab.${name}`) }))}
      />
      <ErrorBoundary resetKey={tab}>
        {tab === "overview" ? <OverviewTab experiment={data} /> : null}
        {tab === "trials" ? <TrialsTab experiment={data} /> : null}
        {tab === "search" ? <SearchTab experiment={data} /> : null}
        {tab === "logs" ? <LogsTab key={data.id} experiment={data} /> : null}
        {tab === "checkpoints" ? <CheckpointsTab experimentId={data.id} /> : null}
        {tab === "config" ? <ConfigTab experiment={data} /> : null}
        {tab === "events" ? <Events query={events} /> : null}
      </ErrorBoundary>
    </>
  );
}

/** Why nothing of it runs: the reason of the first trial that waits for slots. */
function Waits({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const waits =
    (data.state === "QUEUED" || shownState(data) === "WAITING") && (data.num_trials_by_state["QUEUED"] ?? 0) > 0;
  const first = useQuery({ ...firstWaiting(data.id), enabled: waits }).data;
  if (!waits || !first?.pending_reason) return null;
  return (
    <Notice
      tone={first.is_impossible ? "warn" : "run"}
      title={t(first.is_impossible ? "trial.impossible" : "trial.pending")}
    >
      <span data-testid="waits">
        <Reason text={first.pending_reason} parts={first.pending_parts} />
      </span>
    </Notice>
  );
}

function OverviewTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const byState = Object.entries(data.num_trials_by_state).filter(([, n]) => n > 0);
  return (
    <>
      <Stats
        items={[
          {
            testId: "stat-progress",
            label: t("experiments.progress"),
            value: format.pct(data.progress),
            note: (
              <Meter
                value={data.progress}
                text=" "
                label={t("experiments.progress")}
                tone={data.state === "COMPLETED" ? "ok" : data.state === "FAILED" ? "bad" : "run"}
              />
            ),
          },
          {
            testId: "stat-trials",
            label: t("experiments.trials"),
            value: (
              <>
                {data.num_trials}
                {data.num_trials_planned === null ? null : <small> / {data.num_trials_planned}</small>}
              </>
            ),
            note: byState.map(([state, n]) => `${n} ${stateWord(t, state)}`).join(" · "),
          },
          {
            testId: "stat-best",
            label: data.metric_name ? t("experiment.best", { metric: data.metric_name }) : t("experiments.best"),
            value: format.num(data.best_metric),
            note:
              data.best_trial_id === null ? (
                ""
              ) : (
                <Link to="/trials/$trialId" params={{ trialId: String(data.best_trial_id) }}>
                  {t("experiment.bestTrial")}
                </Link>
              ),
          },
          {
            testId: "stat-elapsed",
            label: t(
              data.started_at ? "experiments.elapsed" : data.ended_at ? "experiment.neverRan" : "experiment.waitingFor",
            ),
            value: <Elapsed start={data.started_at ?? data.created_at} end={data.ended_at} />,
          },
        ]}
      />
      <div className={uiCss["cols"]}>
        <div>
          <BestTrial experiment={data} />
          <Section title={t("experiment.timeline")}>
            <KeyValues
              items={[
                [
                  stateWord(t, "QUEUED"),
                  <span key="q">
                    <Stamp at={data.created_at} /> ·{" "}
                    <Elapsed start={data.created_at} end={data.started_at ?? data.ended_at} />
                  </span>,
                ],
                ...(data.started_at
                  ? ([
                      [
                        stateWord(t, "RUNNING"),
                        <span key="r">
                          <Stamp at={data.started_at} /> · <Elapsed start={data.started_at} end={data.ended_at} />
                        </span>,
                      ],
                    ] as [string, React.ReactNode][])
                  : []),
                ...(data.ended_at
                  ? ([[stateWord(t, data.state), <Stamp key="e" at={data.ended_at} />]] as [string, React.ReactNode][])
                  : []),
              ]}
            />
          </Section>
        </div>
        <div>
          <Section title={t("experiment.resources")}>
            <KeyValues
              items={[
                [t("experiments.slots"), slotsText(t, data)],
                [t("nodes.pool"), data.pool],
                [t("queue.priority"), String(data.priority)],
                [
                  t("experiments.searcher"),
                  t(`searcher.${data.searcher}` as "searcher.asha", { defaultValue: data.searcher }),
                ],
                ...(data.metric_name
                  ? ([[t("experiment.metric"), `${data.metric_name} (${data.metric_goal ?? ""})`]] as [
                      string,
                      string,
                    ][])
                  : []),
              ]}
            />
          </Section>
          <BudgetSection experiment={data} />
          <ScalingSection experiment={data} />
          <Order experiment={data} />
          <Lineage experiment={data} />
          <Notes experiment={data} />
        </div>
      </div>
    </>
  );
}

function Notes({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState<string | null>(null);
  const save = useMutation({
    mutationFn: (notes: string) =>
      unwrap(
        client.PATCH("/api/v1/experiments/{experiment_id}", {
          params: { path: { experiment_id: data.id } },
          body: { notes },
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["experiment", data.id] });
      setDraft(null);
    },
  });
  const edit = !mayChange(user, data.owner) ? null : (
    <Button variant="subtle" size="compact-xs" onClick={() => setDraft(data.notes)}>
      {t("common.edit")}
    </Button>
  );
  return (
    <Section title={t("experiment.notes")} note={draft === null ? edit : null}>
      {draft === null ? (
        data.notes ? (
          <NotesText text={data.notes} />
        ) : (
          <div className="dim">{t("experiment.noNotes")}</div>
        )
      ) : (
        <>
          <NotesField label={t("experiment.notes")} value={draft} onChange={setDraft} />
          {save.error ? <ErrorNotice error={save.error} /> : null}
          <div className={`${layout["buttons"]} ${layout["aboveM"]}`}>
            <Button loading={save.isPending} onClick={() => save.mutate(draft)}>
              {t("common.save")}
            </Button>
            <Button variant="default" onClick={() => setDraft(null)}>
              {t("common.cancel")}
            </Button>
          </div>
        </>
      )}
    </Section>
  );
}

function ConfigTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  return (
    <>
      <Section
        title={t("experiment.document")}
        note={
          <Link to="/submit" search={{ from: data.id }}>
            {t("operation.fork")}
          </Link>
        }
      >
        <Code text={data.document} />
      </Section>
      <Section
        title={t("trial.resolved")}
        note={data.blob_sha256 ? <span className="mono">code {data.blob_sha256.slice(0, 12)}</span> : null}
      >
        <Code text={JSON.stringify(data.config, null, 2)} />
      </Section>
    </>
  );
}
