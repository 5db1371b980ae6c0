import { Button, Menu, Textarea } from "@mantine/core";
import { IconArchive, IconCopyPlus, IconDots, IconPlayerStop, IconTrash } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { experiment, type ExperimentDetail, experimentEvents, me } from "../../api/queries";
import { Code, KeyValues, Meter, Notice, PageHead, Section, Stats } from "../../components/basics";
import { Confirm } from "../../components/Confirm";
import { ErrorBoundary } from "../../components/ErrorBoundary";
import { Events } from "../../components/Events";
import { LinkButton } from "../../components/LinkButton";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { StateBadge, stateWord } from "../../components/StateBadge";
import { StopDialog } from "../../components/StopDialog";
import { Tabs } from "../../components/Tabs";
import { Ago, Elapsed, Stamp } from "../../components/Time";
import uiCss from "../../components/ui.module.css";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { SearchTab } from "./SearchTab";
import { BestTrial, TrialsTab } from "./TrialsTab";

const TABS = ["overview", "trials", "search", "config", "events"] as const;

export function ExperimentPage() {
  const { experimentId } = useParams({ from: "/app/experiments/$experimentId" });
  const id = Number(experimentId);
  const query = useQuery(experiment(id));
  useLiveQueries(`experiment:${id}`, ["experiment", id]);
  return <QueryView query={query}>{(data) => <ExperimentView experiment={data} />}</QueryView>;
}

function ExperimentView({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/experiments/$experimentId" });
  const user = useQuery(me).data;
  const events = useInfiniteQuery({ ...experimentEvents(data.id), enabled: search.tab === "events" });
  const [stopping, setStopping] = useState(false);
  const tabs = TABS.filter((tab) => tab !== "search" || data.only_trial_id === null);
  const tab = tabs.find((name) => name === search.tab) ?? "overview";
  const done = isTerminal(data.state);
  const live = Object.entries(data.num_trials_by_state).reduce((sum, [state, n]) => (isTerminal(state) ? sum : sum + n), 0);
  return (
    <>
      <PageHead
        title={data.name}
        badge={<StateBadge state={data.state} />}
        actions={
          <>
            {!done && user?.role !== "viewer" ? (
              <Button color="red" variant="light" leftSection={<IconPlayerStop size={14} />} onClick={() => setStopping(true)} disabled={data.state === "STOPPING"} data-testid="stop">
                {t("stop.button")}
              </Button>
            ) : null}
            {user?.role !== "viewer" ? <More experiment={data} /> : null}
          </>
        }
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
          </>
        }
      />
      {data.state === "FAILED" ? <Notice tone="bad" title={data.reason || t("trial.failed")} /> : data.reason && data.state !== "RUNNING" && data.state !== "COMPLETED" ? <Notice>{data.reason}</Notice> : null}
      <Tabs active={tab} label={data.name} tabs={tabs.map((name) => ({ id: name, label: t(`experiment.tab.${name}`) }))} />
      <ErrorBoundary resetKey={tab}>
        {tab === "overview" ? <OverviewTab experiment={data} /> : null}
        {tab === "trials" ? <TrialsTab experiment={data} /> : null}
        {tab === "search" ? <SearchTab experiment={data} /> : null}
        {tab === "config" ? <ConfigTab experiment={data} /> : null}
        {tab === "events" ? <Events query={events} /> : null}
      </ErrorBoundary>
      <StopDialog opened={stopping} onClose={() => setStopping(false)} target={{ kind: "experiment", id: data.id, name: data.name, trials: live, slots: live * data.slots_per_trial }} />
    </>
  );
}

function OverviewTab({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const byState = Object.entries(data.num_trials_by_state).filter(([, n]) => n > 0);
  return (
    <>
      <Stats
        items={[
          { testId: "stat-progress", label: t("experiments.progress"), value: format.pct(data.progress), note: <Meter value={data.progress} text=" " label={t("experiments.progress")} tone={data.state === "COMPLETED" ? "ok" : data.state === "FAILED" ? "bad" : "run"} /> },
          { testId: "stat-trials", label: t("experiments.trials"), value: <>{data.num_trials}{data.num_trials_planned === null ? null : <small> / {data.num_trials_planned}</small>}</>, note: byState.map(([state, n]) => `${n} ${stateWord(t, state)}`).join(" · ") },
          { testId: "stat-best", label: data.metric_name ? t("experiment.best", { metric: data.metric_name }) : t("experiments.best"), value: format.num(data.best_metric), note: data.best_trial_id === null ? "" : <Link to="/trials/$trialId" params={{ trialId: String(data.best_trial_id) }}>{t("experiment.bestTrial")}</Link> },
          { testId: "stat-elapsed", label: t("experiments.elapsed"), value: <Elapsed start={data.started_at ?? data.created_at} end={data.ended_at} />, note: data.started_at ? null : t("trial.waiting") },
        ]}
      />
      <div className={uiCss["cols"]}>
        <div>
          <BestTrial experiment={data} />
          <Section title={t("experiment.timeline")}>
            <KeyValues
              items={[
                [stateWord(t, "QUEUED"), <span key="q"><Stamp at={data.created_at} /> · <Elapsed start={data.created_at} end={data.started_at ?? data.ended_at} /></span>],
                ...(data.started_at ? ([[stateWord(t, "RUNNING"), <span key="r"><Stamp at={data.started_at} /> · <Elapsed start={data.started_at} end={data.ended_at} /></span>]] as [string, React.ReactNode][]) : []),
                ...(data.ended_at ? ([[stateWord(t, data.state), <Stamp key="e" at={data.ended_at} />]] as [string, React.ReactNode][]) : []),
              ]}
            />
          </Section>
        </div>
        <div>
          <Section title={t("experiment.resources")}>
            <KeyValues
              items={[
                [t("experiments.slots"), `${data.slots_per_trial} × ${data.slot_type}`],
                [t("nodes.pool"), data.pool],
                [t("queue.priority"), String(data.priority)],
                [t("experiments.searcher"), t(`searcher.${data.searcher}` as "searcher.asha", { defaultValue: data.searcher })],
                ...(data.metric_name ? ([[t("experiment.metric"), `${data.metric_name} (${data.metric_goal ?? ""})`]] as [string, string][]) : []),
              ]}
            />
          </Section>
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
    mutationFn: (notes: string) => unwrap(client.PATCH("/api/v1/experiments/{experiment_id}", { params: { path: { experiment_id: data.id } }, body: { notes } })),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["experiment", data.id] });
      setDraft(null);
    },
  });
  const edit = user?.role === "viewer" ? null : (
    <Button variant="subtle" size="compact-xs" onClick={() => setDraft(data.notes)}>
      {t("common.edit")}
    </Button>
  );
  return (
    <Section title={t("experiment.notes")} note={draft === null ? edit : null}>
      {draft === null ? (
        <div style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }} className={data.notes ? undefined : "dim"}>
          {data.notes || t("experiment.noNotes")}
        </div>
      ) : (
        <>
          <Textarea aria-label={t("experiment.notes")} autosize minRows={4} maxRows={16} value={draft} onChange={(e) => setDraft(e.currentTarget.value)} data-autofocus />
          {save.error ? <ErrorNotice error={save.error} /> : null}
          <div style={{ display: "flex", gap: 8, marginTop: 8 }}>
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
      <Section title={t("experiment.document")} note={<Link to="/submit" search={{ from: data.id }}>{t("experiment.again")}</Link>}>
        <Code text={data.document} />
      </Section>
      <Section title={t("trial.resolved")} note={data.blob_sha256 ? <span className="mono">code {data.blob_sha256.slice(0, 12)}</span> : null}>
        <Code text={JSON.stringify(data.config, null, 2)} />
      </Section>
    </>
  );
}

function More({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const path = { params: { path: { experiment_id: data.id } } };
  const archive = useMutation({
    mutationFn: () => (data.archived_at ? unwrap(client.POST("/api/v1/experiments/{experiment_id}:unarchive", path)) : unwrap(client.POST("/api/v1/experiments/{experiment_id}:archive", path))),
    onSuccess: () => queryClient.invalidateQueries(),
  });
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/experiments/{experiment_id}", path)),
    onSuccess: async () => {
      await navigate({ to: "/experiments" });
      await queryClient.invalidateQueries({ queryKey: ["experiments"] });
    },
  });
  return (
    <>
      {archive.error ? <ErrorNotice error={archive.error} /> : null}
      <LinkButton variant="default" to="/submit" search={{ from: data.id }} leftSection={<IconCopyPlus size={14} />}>
        {t("experiment.again")}
      </LinkButton>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default" px={8} aria-label={t("common.actions")}>
            <IconDots size={16} />
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconArchive size={14} />} onClick={() => archive.mutate()}>
            {t(data.archived_at ? "experiment.unarchive" : "experiment.archive")}
          </Menu.Item>
          <Menu.Item color="red" leftSection={<IconTrash size={14} />} disabled={!isTerminal(data.state)} onClick={() => setDeleting(true)}>
            {t("experiment.delete")}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Confirm opened={deleting} onClose={() => setDeleting(false)} title={t("experiment.deleteTitle")} action={t("experiment.delete")} pending={remove.isPending} error={remove.error} onConfirm={() => remove.mutate()}>
        {t("experiment.deleteText", { name: data.name, id: data.id, count: data.num_trials })}
      </Confirm>
    </>
  );
}
