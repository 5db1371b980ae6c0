import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import {
  experiment,
  type ExperimentDetail,
  experimentEvents,
  experimentSearch,
  firstWaiting,
  trialReproduction,
} from "../../api/queries";
import { Meter, Notice, PageHead, Stats } from "../../components/basics";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { Events } from "../../components/Events";
import { QueryView } from "../../components/QueryView";
import { Reason, Message } from "../../components/text/Message";
import { FlagBadge, StateBadge, stateWord } from "../../components/StateBadge";
import { Tabs } from "../../components/Tabs";
import { Ago, Elapsed } from "../../components/Time";
import * as format from "../../lib/format";
import { shownState } from "../../lib/held";
import { CheckpointsTab } from "./CheckpointsPage";
import { Details } from "../../common/experiments/Details";
import { ExperimentActions } from "../../common/experiments/ExperimentActions";
import { UnmanagedBadge } from "../../common/experiments/UnmanagedBadge";
import { Origin } from "../../common/experiments/Origin";
import { Settings } from "../../common/experiments/Settings";
import layout from "../../components/layout.module.css";
import { LearningCurves } from "./search/LearningCurves";
import { LogsTab } from "./LogsTab";
import type { Early } from "../../app/lazyPage";
import { preloadSearchTab, SearchTab } from "./search/SearchTab";
import { TopTrials } from "./TopTrials";
import { TrialsTab } from "./TrialsTab";

const TABS = ["overview", "trials", "search", "logs", "checkpoints", "config", "details", "events"] as const;

export const askEarly = ({ search }: Early): Promise<unknown> =>
  "tab" in search && search.tab === "search" ? preloadSearchTab() : Promise.resolve();

/** The page of a search; that of an experiment with a single trial is the trial's. */
export function ExperimentPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId" });
  const id = Number(experimentId);
  const query = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["experiment", id], ["scaling", id]);
  return (
    <QueryView query={query} isPage>
      {(data) => <ExperimentView experiment={data} />}
    </QueryView>
  );
}

function ExperimentView({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const events = useInfiniteQuery({ ...experimentEvents(data.id), enabled: search.tab === "events" });
  const tab = TABS.find((name) => name === search.tab) ?? "overview";
  return (
    <>
      <PageHead
        guide="guides/dashboard#an-experiment-which-trial-is-best"
        title={data.name}
        badge={
          <>
            <StateBadge state={shownState(data)} />
            {data.standstill ? <FlagBadge flag="STALLED" /> : null}
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
      ) : data.reason &&
        (data.state !== "RUNNING" || data.desired !== "run") &&
        (data.state !== "COMPLETED" || data.is_doubtful) ? (
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
        tabs={TABS.map((name) => ({ id: name, label: t(`experiment.tab.${name}`) }))}
      />
      <ErrorBoundary resetKey={tab}>
        {tab === "overview" ? <OverviewTab experiment={data} /> : null}
        {tab === "trials" ? <TrialsTab experiment={data} /> : null}
        {tab === "search" ? <SearchTab experiment={data} /> : null}
        {tab === "logs" ? <LogsTab key={data.id} experiment={data} /> : null}
        {tab === "checkpoints" ? <CheckpointsTab experimentId={data.id} /> : null}
        {tab === "config" ? <ConfigTab experiment={data} /> : null}
        {tab === "details" ? <Details experiment={data} /> : null}
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

/** What is being learnt: the best so far, the learning curves and the top trials. */
function OverviewTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const search = useQuery(experimentSearch(data.id));
  return (
    <>
      <OverviewStats experiment={data} />
      <QueryView query={search}>
        {(found) => (
          <>
            <TopTrials experiment={data} />
            <LearningCurves experiment={data} search={found} />
          </>
        )}
      </QueryView>
    </>
  );
}

function OverviewStats({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const byState = Object.entries(data.num_trials_by_state).filter(([, n]) => n > 0);
  return (
    <Stats
      items={[
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
          testId: "stat-elapsed",
          label: t(
            data.started_at ? "experiments.elapsed" : data.ended_at ? "experiment.neverRan" : "experiment.waitingFor",
          ),
          value: <Elapsed start={data.started_at ?? data.created_at} end={data.ended_at} />,
        },
      ]}
    />
  );
}

function ConfigTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  // Trials differ in hyperparameters alone; where a setting comes from is the same for all of them.
  const best = data.best_trial_id;
  const origins = useQuery({ ...trialReproduction(best ?? 0, 0, false), enabled: best !== null }).data?.origins;
  return (
    <>
      <p className={layout["text"]}>
        <Link to="/submit" search={{ from: data.id }}>
          {t("operation.fork")}
        </Link>
      </p>
      <Settings experiment={data} origins={origins ?? {}} />
    </>
  );
}
