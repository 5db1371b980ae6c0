import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { me, type Project, project as projectQuery, projectEvents } from "../../api/queries";
import { Code, KeyValues, Meter, Notice, Section } from "../../components/basics";
import { BudgetBars } from "../../components/BudgetBars";
import { BudgetDialog } from "../../components/dialogs/BudgetDialog";
import { Confirm } from "../../components/dialogs/Confirm";
import { Events } from "../../components/Events";
import { QueryView } from "../../components/QueryView";
import { Stamp } from "../../components/Time";
import filterCss from "../../components/tables/filters.module.css";
import uiCss from "../../components/ui.module.css";
import { Reason } from "../../components/text/Message";
import * as format from "../../lib/format";
import { ProjectMembers } from "./access/ProjectMembers";
import { ProjectGuards, ProjectRetention } from "./ProjectDialogs";
import { Notifications } from "./notifications/Notifications";
import { Secrets } from "./Secrets";
import { ShareDialog } from "./ShareDialog";
import layout from "../../components/layout.module.css";

/** One project whole: its share of the cluster, its quotas, its budget, and what happened to it. */
export function ProjectPanel({ name }: { name: string }) {
  const query = useQuery({ ...projectQuery(name), refetchInterval: 10_000 }); // spending grows by itself
  const { t } = useTranslation();
  const events = useInfiniteQuery(projectEvents(name));
  return (
    <>
      <QueryView query={query}>
        {(data) => (
          <>
            <Panel project={data} />
            <ProjectMembers project={data} />
          </>
        )}
      </QueryView>
      <Secrets key={name} project={name} />
      <Notifications key={`notify ${name}`} project={name} />
      <Section title={t("trial.tab.events")}>
        <Events query={events} />
      </Section>
    </>
  );
}

type Asked = "share" | "budget" | "retention" | "guards" | "anew" | "delete";

/** What an administrator does to a project; `onChanged` follows each change. */
function useProjectMutations(name: string, onChanged: () => void) {
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const path = { params: { path: { name } } };
  const change = useMutation({
    mutationFn: (body: Partial<Schemas["ProjectPatch"]>) =>
      unwrap(client.PATCH("/api/v1/projects/{name}", { ...path, body: { restart_count: false, ...body } })),
    onSuccess: async () => {
      onChanged();
      await queryClient.invalidateQueries({ queryKey: ["projects"] });
    },
  });
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/projects/{name}", path)),
    onSuccess: async () => {
      await navigate({ to: "/settings", search: { tab: "projects" } });
      await queryClient.invalidateQueries({ queryKey: ["projects"] });
    },
  });
  return { change, remove };
}

function Panel({ project }: { project: Project }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = (): void => setAsked(null);
  const { change, remove } = useProjectMutations(project.name, close);
  const ask = (next: Asked): void => {
    change.reset();
    remove.reset();
    setAsked(next);
  };
  const button = (what: Asked, label: string) => (
    <Button
      variant="default"
      color={what === "delete" ? "red" : undefined}
      size="compact-sm"
      onClick={() => ask(what)}
      data-testid={`project-${what}`}
    >
      {label}
    </Button>
  );
  const atLimit = t("projects.at100");
  const dialog = {
    project,
    pending: change.isPending,
    error: change.error,
    onSave: (body: Partial<Schemas["ProjectPatch"]>) => change.mutate(body),
    onClose: close,
  };
  return (
    <Section
      title={project.name}
      testId="project"
      note={
        user?.role === "admin" ? (
          <span className={`${filterCss["filters"]} ${layout["text"]}`}>
            {button("share", t("projects.change"))}
            {button("budget", t(project.budget ? "budget.edit" : "budget.add"))}
            {button("retention", t("projects.retention"))}
            {button("guards", t("projects.guards"))}
            {button("anew", t("projects.anew"))}
            {project.num_experiments === 0 ? button("delete", t("operation.delete")) : null}
          </span>
        ) : null
      }
    >
      {project.exhausted_reason ? (
        <Notice tone="bad" title={<Reason text={project.exhausted_reason} parts={project.exhausted_parts} />} />
      ) : null}
      <div className={uiCss["cols"]}>
        <div>
          <Share project={project} />
        </div>
        <BudgetBars budget={project.budget} spending={project.spending} atLimit={atLimit} />
      </div>
      {asked === "share" ? <ShareDialog {...dialog} /> : null}
      {asked === "retention" ? <ProjectRetention {...dialog} /> : null}
      {asked === "guards" ? <ProjectGuards {...dialog} /> : null}
      {asked === "budget" ? (
        <BudgetDialog
          title={t("projects.budgetOf", { name: project.name })}
          text={`${t("budget.at100")}: ${atLimit}`}
          budget={project.budget}
          currency={project.spending.currency}
          lengths={false}
          pending={change.isPending}
          error={change.error}
          onSave={(budget) => change.mutate({ budget })}
          onClose={close}
        />
      ) : null}
      <Confirm
        opened={asked === "anew"}
        onClose={close}
        title={t("projects.anewTitle", { name: project.name })}
        action={t("projects.anew")}
        danger={false}
        pending={change.isPending}
        error={change.error}
        onConfirm={() => change.mutate({ restart_count: true })}
      >
        {t("projects.anewText", { hours: format.num(project.spending.slot_hours, 3) })}
      </Confirm>
      <Confirm
        opened={asked === "delete"}
        onClose={close}
        title={t("projects.deleteTitle", { name: project.name })}
        action={t("operation.delete")}
        pending={remove.isPending}
        error={remove.error}
        onConfirm={() => remove.mutate()}
      >
        {t("projects.deleteText")}
      </Confirm>
    </Section>
  );
}

/** Its weight and its quotas, since when its spending is counted, and how long what it stores is kept. */
function Share({ project }: { project: Project }) {
  const { t } = useTranslation();
  const kept = (days: number | null): string =>
    days === null ? t("projects.asServer") : t("retention.days", { count: days, n: format.num(days) });
  return (
    <KeyValues
      items={[
        [
          t("projects.weight"),
          <span key="w">
            {format.num(project.weight)} <span className="dim">{t("projects.weightHint")}</span>
          </span>,
        ],
        ...project.quotas.map((quota): [string, React.ReactNode] => [
          t("projects.quotaOf", { type: quota.slot_type, pool: quota.pool }),
          <Meter
            key={quota.pool + quota.slot_type}
            value={quota.slots > 0 ? quota.slots_held / quota.slots : 1}
            text={t("projects.held", { held: quota.slots_held, slots: quota.slots })}
            tone={quota.slots_held >= quota.slots ? "warn" : "run"}
            label={t("projects.quotaOf", { type: quota.slot_type, pool: quota.pool })}
          />,
        ]),
        ...(project.quotas.length === 0 ? ([[t("projects.quotas"), t("projects.noQuota")]] as [string, string][]) : []),
        [t("projects.countedSince"), <Stamp key="c" at={project.counted_since} />],
        [t("projects.logsKept"), kept(project.log_retention_days)],
        [t("projects.metricsKept"), kept(project.metric_retention_days)],
        ...(project.guards
          ? ([[t("projects.guards"), <Code key="g" text={project.guards} wrap />]] as [string, React.ReactNode][])
          : []),
      ]}
    />
  );
}
