import { Button } from "@mantine/core";
import { IconDownload, IconPlayerStop, IconPlayerTrackNext } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import {
  experiment,
  type ExperimentDetail,
  me,
  mediaOverview,
  trial,
  type TrialDetail,
  trialMetrics,
} from "../../api/queries";
import { Code, KeyValues, Notice, PageHead, Section, type StatItem, Stats } from "../../components/basics";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { QueryView } from "../../components/QueryView";
import { Reason, Message } from "../../components/Message";
import { FlagBadge, StateBadge } from "../../components/StateBadge";
import { Tabs } from "../../components/Tabs";
import { Ago, Elapsed } from "../../components/Time";
import { mayChange } from "../../lib/access";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { ExperimentActions } from "../../common/experiments/ExperimentActions";
import { UnmanagedBadge } from "../../common/experiments/UnmanagedBadge";
import { Origin } from "../../common/experiments/Origin";
import { latestAttempt } from "./attempt";
import { bestOf, type Recent, recentOf, shareOf } from "./recent";
import { Attempts } from "./Attempts";
import { Checkpoints } from "./Checkpoints";
import { Evaluation } from "./Evaluation";
import { Logs } from "./Logs";
import { Media } from "./Media";
import { Metrics } from "./Metrics";
import { Outputs } from "./Outputs";
import { Performance } from "./Performance";
import { Ranks } from "./Ranks";
import { SendOnDialog } from "./SendOnDialog";
import { StopDialog } from "./StopDialog";
import { TrackedRuns } from "./TrackedRuns";
import { TrialEvents } from "./TrialEvents";
import css from "./trials.module.css";

export { askEarly } from "./askEarly";

const TABS = [
  "metrics",
  "performance",
  "ranks",
  "logs",
  "media",
  "outputs",
  "checkpoints",
  "evaluation",
  "config",
  "events",
] as const;

/** Methods that let a trial wait at its rung. */
const WITH_RUNGS: ReadonlySet<string> = new Set(["asha", "hyperband"]);

export function TrialPage() {
  const { trialId } = useParams({ from: "/app/trials/$trialId" });
  const id = Number(trialId);
  const query = useQuery(trial(id));
  useLiveQueries(`trial:${id}`, ["trial", id]);
  return <QueryView query={query}>{(data) => <TrialView trial={data} key={data.id} />}</QueryView>;
}

function TrialView({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/trials/$trialId" });
  const whole = useQuery(experiment(data.experiment_id));
  useLiveQueries(`experiment:${data.experiment_id}`, ["experiment", data.experiment_id]);
  const [stopping, setStopping] = useState(false);
  const [sending, setSending] = useState(false);
  const tab = TABS.find((name) => name === search.tab) ?? "metrics";
  const alone = data.searcher === "single";
  const tabs = useTabs(data, tab);
  const title = alone ? data.experiment_name : t("trial.title", { name: data.experiment_name, no: data.no });
  return (
    <>
      <PageHead
        guide="guides/dashboard#a-trial-is-it-learning-is-it-fast-which-rank-is-the-problem"
        title={title}
        badge={
          <>
            <StateBadge state={data.state} />
            <UnmanagedBadge client={data.unmanaged} />
            {data.flags.map((flag) => (
              <FlagBadge key={flag} flag={flag} />
            ))}
          </>
        }
        actions={
          <TrialActions
            trial={data}
            experiment={whole.data}
            onStop={() => setStopping(true)}
            onSendOn={() => setSending(true)}
          />
        }
        sub={<TrialFacts trial={data} experiment={whole.data} />}
      />
      <Why trial={data} />
      {data.notices.map((notice) => (
        <Notice key={notice.text} tone="warn">
          <span data-testid="notice">
            <Reason text={notice.text} parts={notice.parts} />
          </span>
        </Notice>
      ))}
      {data.attempts.length > 0 ? <HeaderStrip trial={data} /> : null}
      <Tabs active={tab} label={title} tabs={tabs} />
      <ErrorBoundary resetKey={tab}>
        {tab === "metrics" ? <Metrics trial={data} /> : null}
        {tab === "performance" ? <Performance trial={data} /> : null}
        {tab === "ranks" ? <Ranks trial={data} /> : null}
        {tab === "logs" ? <Logs trial={data} /> : null}
        {tab === "media" ? <Media trial={data} /> : null}
        {tab === "outputs" ? <Outputs trial={data} /> : null}
        {tab === "checkpoints" ? <Checkpoints trial={data} /> : null}
        {tab === "evaluation" ? <Evaluation trial={data} /> : null}
        {tab === "config" ? <Config trial={data} /> : null}
        {tab === "events" ? (
          <>
            <Attempts trial={data} />
            <TrialEvents trialId={data.id} />
          </>
        ) : null}
      </ErrorBoundary>
      {sending ? (
        <SendOnDialog
          trial={{ id: data.id, no: data.no, name: data.experiment_name, slots: data.num_slots }}
          onClose={() => setSending(false)}
        />
      ) : null}
      {stopping ? (
        <StopDialog
          trial={{ id: data.id, no: data.no, name: data.experiment_name, slots: data.num_slots }}
          onClose={() => setStopping(false)}
        />
      ) : null}
    </>
  );
}

/** The tab of media is there when there are any, and says under how many names. */
function useTabs(data: TrialDetail, active: string): { id: string; label: string }[] {
  const { t } = useTranslation();
  const found = useQuery(mediaOverview(data.id, !isTerminal(data.state))).data;
  const hasMedia = found !== undefined && (found.num_series > 0 || found.dropped.length > 0);
  return TABS.filter((name) => name !== "media" || hasMedia || active === "media").map((name) => {
    const label = t(`trial.tab.${name}`);
    return { id: name, label: name === "media" && hasMedia ? `${label} ${format.count(found.num_series)}` : label };
  });
}

interface PartProps {
  trial: TrialDetail;
  /** Undefined until it is loaded. */
  experiment: ExperimentDetail | undefined;
}

function TrialActions({
  trial: data,
  experiment: whole,
  onStop,
  onSendOn,
}: PartProps & { onStop: () => void; onSendOn: () => void }) {
  const { t } = useTranslation();
  const isMine = mayChange(useQuery(me).data, whole?.owner ?? null);
  const alone = data.searcher === "single";
  // Paused by its search, not by somebody with the whole experiment: it waits at a rung.
  const mayWait =
    data.state === "PAUSED" && data.desired === "pause" && WITH_RUNGS.has(data.searcher) && whole?.desired === "run";
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconDownload size={14} />}
        component="a"
        href={`/api/v1/trials/${data.id}/series.csv`}
        download
      >
        CSV
      </Button>
      {mayWait && isMine ? (
        <Button
          variant="default"
          leftSection={<IconPlayerTrackNext size={14} aria-hidden />}
          onClick={onSendOn}
          data-testid="send-on"
        >
          {t("sendOn.button")}
        </Button>
      ) : null}
      {!alone && !isTerminal(data.state) && isMine ? (
        <Button
          color="red"
          variant="light"
          leftSection={<IconPlayerStop size={14} aria-hidden />}
          onClick={onStop}
          disabled={data.state === "STOPPING"}
          data-testid="stop"
        >
          {t("operation.stop")}
        </Button>
      ) : null}
      {alone && whole ? <ExperimentActions experiment={whole} /> : null}
    </>
  );
}

/** The line under the title: where the trial belongs, its slots, how long it ran, its hyperparameters. */
function TrialFacts({ trial: data, experiment: whole }: PartProps) {
  const { t } = useTranslation();
  const held = data.num_slots_held;
  return (
    <>
      <span>
        <Link to="/experiments/$experimentId" params={{ experimentId: String(data.experiment_id) }}>
          {t("experiment.ref", { id: data.experiment_id })}
        </Link>
      </span>
      {data.searcher === "single" && whole ? <Origin experiment={whole} /> : null}
      {data.unmanaged !== null ? (
        <Heard trial={data} />
      ) : (
        <span>
          {held > 0 && held !== data.num_slots
            ? t("trial.slotsHeld", { held, count: data.num_slots })
            : t("trial.slots", { count: data.num_slots })}
        </span>
      )}
      <span>
        {data.started_at ? (
          <>
            {t("trial.ran")} <Elapsed start={data.started_at} end={data.ended_at} />
          </>
        ) : (
          <>
            {t(data.ended_at ? "trial.waited" : "trial.waiting")} <Elapsed start={data.queued_at} end={data.ended_at} />
          </>
        )}
      </span>
      <HparamLine hparams={data.hparams} />
    </>
  );
}

/** When the client of an unmanaged trial last said anything; a warning when that is long ago. */
function Heard({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  return (
    <span data-testid="heard" data-tone={data.is_silent ? "warn" : undefined}>
      {t(data.is_silent ? "unmanaged.silent" : "unmanaged.heard")} <Ago at={data.last_report_at} />
    </span>
  );
}

function HparamLine({ hparams }: { hparams: Record<string, unknown> }) {
  const entries = Object.entries(hparams);
  if (entries.length === 0) return null;
  return (
    <span className="mono" title={JSON.stringify(hparams, null, 1)}>
      {entries
        .slice(0, 6)
        .map(([key, value]) => `${key}=${typeof value === "number" ? format.num(value) : String(value)}`)
        .join("  ")}
      {entries.length > 6 ? " …" : ""}
    </span>
  );
}

/** One sentence at the top that says why it waits or failed, with the first failing rank's last words. */
function Why({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const attempt = latestAttempt(data);
  if (data.state === "FAILED" || data.state === "RETRY_WAIT") {
    const tail = attempt?.root_log_tail ?? [];
    const failed = data.state === "FAILED";
    return (
      <Notice
        tone={failed ? "bad" : "warn"}
        title={
          failed ? (
            <Message kind="terminations" code={data.termination} text={data.reason || t("trial.failed")} />
          ) : (
            t("trial.retry")
          )
        }
        action={
          attempt?.root_rank !== null && attempt?.root_rank !== undefined ? (
            <Link
              to="."
              search={{ tab: "logs", rank: String(attempt.root_rank), attempt: attempt.no }}
              data-testid="root-cause"
            >
              {t("trial.rankLog", { rank: attempt.root_rank })}
            </Link>
          ) : null
        }
      >
        {failed ? null : <Message kind="terminations" code={attempt?.termination} text={data.reason} />}
        {tail.length > 0 ? (
          <div className={css["tail"]}>
            <Code text={tail.join("\n")} testId="last-lines" />
          </div>
        ) : null}
      </Notice>
    );
  }
  if (data.state === "QUEUED" && data.pending_reason)
    return (
      <Notice
        tone={data.is_impossible ? "warn" : "run"}
        title={t(data.is_impossible ? "trial.impossible" : "trial.pending")}
      >
        <Reason text={data.pending_reason} parts={data.pending_parts} />
      </Notice>
    );
  const diverged = Object.entries(data.summary).find(
    ([name, entry]) => name.endsWith("loss") && typeof entry.last === "string",
  );
  if ((data.state === "RUNNING" || data.state === "COMPLETED") && diverged) {
    const [name, entry] = diverged;
    return (
      <Notice
        tone="bad"
        title={t("trial.diverged", { name, value: format.num(entry.last), step: format.count(entry.step) })}
      >
        {t("trial.divergedHint")}
      </Notice>
    );
  }
  if (data.state === "STARTING" && attempt) {
    return (
      <Notice title={t("trial.starting", { nodes: attempt.nodes.join(", "), world: attempt.world_size })}>
        {attempt.rendezvous_host ? `${attempt.rendezvous_host}:${attempt.rendezvous_port ?? "…"}` : data.reason}
      </Notice>
    );
  }
  if (data.reason && data.state !== "RUNNING" && data.state !== "COMPLETED")
    return (
      <Notice>
        <Message kind="terminations" code={data.termination} text={data.reason} />
      </Notice>
    );
  return null;
}

function HeaderStrip({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  // The latest values of rank 0 come with the summary; lists carry summaries only.
  const metrics = useQuery(trialMetrics(data.id)).data;
  const names = Object.keys(data.summary);
  const lossName = ["train/loss", data.metric_name ?? "", ...names.filter((name) => name.endsWith("loss"))].find(
    (name) => name in data.summary,
  );
  const loss = lossName ? data.summary[lossName] : undefined;
  const val = data.summary["val/loss"] ?? (data.metric_name ? data.summary[data.metric_name] : undefined);
  const valName = data.summary["val/loss"] ? "val/loss" : data.metric_name;
  const samples = recentOf(data.summary["throughput/samples_per_s"]);
  const throughput = samples ?? recentOf(data.summary["throughput/tokens_per_s"]);
  const step = recentOf(data.summary["time/step_ms"]);
  const comm =
    shareOf(data.summary["comm/exposed_ms"], data.summary["time/step_ms"]) ??
    recentOf(data.summary["comm/overhead_ratio"]);
  const wait = shareOf(data.summary["time/data_wait_ms"], data.summary["time/step_ms"]);
  const over = (mean: Recent | null, words: string): string =>
    mean === null ? words : `${words} · ${t("trial.stat.mean", { count: mean.count })}`;
  const planned = data.num_steps_planned;
  const nonFinite =
    metrics?.items.reduce((sum, item) => sum + (item.name === lossName ? item.num_non_finite : 0), 0) ?? 0;
  const tail = data.state === "RUNNING" ? data.last_report_at : (data.last_report_at ?? null);
  // While it runs a value may still come, and the strip must not jump; afterwards a dash says nothing.
  const isOver = isTerminal(data.state);
  const items: StatItem[] = [
    {
      testId: "stat-loss",
      label: lossName ?? t("trial.stat.loss"),
      value: format.num(loss?.last),
      note:
        nonFinite > 0
          ? t("trial.stat.nonFinite", { count: nonFinite })
          : loss
            ? t("trial.stat.best", { value: format.num(bestOf(lossName ?? "", loss, data)) })
            : t("trial.stat.none"),
      tone: nonFinite > 0 ? "bad" : undefined,
    },
    ...(val && valName && valName !== lossName
      ? [
          {
            testId: "stat-val",
            label: valName,
            value: format.num(val.last),
            note: t("trial.stat.best", { value: format.num(bestOf(valName, val, data)) }),
          },
        ]
      : []),
    {
      testId: "stat-throughput",
      label: t("trial.stat.throughput"),
      value: format.si(throughput?.mean ?? null, "", 4),
      note: over(throughput, samples === null && throughput !== null ? "tokens/s" : t("trial.stat.samples")),
    },
    {
      testId: "stat-comm",
      label: t("trial.stat.comm"),
      value: format.pct(comm?.mean ?? null),
      note: over(comm, t("trial.stat.ofStep")),
      tone: comm !== null && comm.mean >= 0.3 ? "warn" : undefined,
    },
    {
      testId: "stat-data",
      label: t("trial.stat.data"),
      value: format.pct(wait?.mean ?? null),
      note: over(wait, t("trial.stat.ofStep")),
      tone: wait !== null && wait.mean >= 0.2 ? "warn" : undefined,
    },
    {
      testId: "stat-step-time",
      label: t("trial.stat.stepTime"),
      value: format.ms(step?.mean ?? null),
      note:
        data.summary["time/step_ms"]?.min !== undefined
          ? over(step, t("trial.stat.least", { value: format.ms(data.summary["time/step_ms"]?.min) }))
          : "",
    },
    {
      testId: "stat-step",
      label: t("trial.stat.step"),
      value: (
        <>
          {format.count(data.step)}
          {planned ? <small> / {format.count(planned)}</small> : null}
        </>
      ),
      note: data.epoch === null ? "" : t("trial.stat.epoch", { epoch: format.num(data.epoch, 3) }),
    },
    {
      testId: "stat-restarts",
      label: t("trial.stat.restarts"),
      value: format.count(data.num_restarts),
      note: t("trial.stat.attempt", { no: data.attempt_no }),
    },
    {
      testId: "stat-age",
      label: t("trial.stat.age"),
      value: <Ago at={tail} short />,
      note: data.logs_complete ? t("trial.stat.complete") : "",
    },
  ];
  return <Stats compact items={isOver ? items.filter((item) => item.value !== format.MISSING) : items} />;
}

function Config({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const hparams = Object.entries(data.hparams);
  return (
    <>
      {hparams.length > 0 ? (
        <Section title={t("trial.hparams")}>
          <KeyValues
            items={hparams.map(([key, value]) => [
              <code key={key} className="mono">
                {key}
              </code>,
              typeof value === "number" ? format.num(value, 6) : JSON.stringify(value),
            ])}
          />
        </Section>
      ) : null}
      <TrackedRuns trial={data} />
      <Section guide="concepts/states#attempt" title={t("trial.attempts")}>
        <KeyValues items={[[t("trial.seed"), String(data.seed)]]} />
      </Section>
      <Section title={t("trial.resolved")}>
        <Code text={JSON.stringify(data.config, null, 2)} />
      </Section>
    </>
  );
}
