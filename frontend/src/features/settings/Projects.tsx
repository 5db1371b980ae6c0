import { Button, NumberInput, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { me, type Project, projects } from "../../api/queries";
import { Empty, Meter, Section } from "../../components/basics";
import { amount } from "../../components/BudgetBars";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { ErrorNotice } from "../../components/QueryView";
import * as format from "../../lib/format";
import { ProjectPanel } from "./ProjectPanel";
import layout from "../../components/layout.module.css";

/** What each project gets and has spent; one of them whole below. */
export function Projects() {
  const { t } = useTranslation();
  const { project: chosen } = useSearch({ from: "/app/settings" });
  const user = useQuery(me).data;
  const query = useInfiniteQuery(projects);
  const columns: Column<Project>[] = [
    lead("name", t("experiments.project"), (project) => (
      <Link
        to="/settings"
        search={{ tab: "projects", project: project.name }}
        aria-current={project.name === chosen || undefined}
      >
        {project.name}
      </Link>
    )),
    numeric("weight", t("projects.weight"), (project) => format.num(project.weight)),
    column("quotas", t("projects.quotas"), (project) =>
      project.quotas.length === 0 ? (
        <span className="dim">{t("projects.noQuota")}</span>
      ) : (
        project.quotas
          .map((quota) =>
            t("projects.quota", {
              held: quota.slots_held,
              slots: quota.slots,
              type: quota.slot_type,
              pool: quota.pool,
            }),
          )
          .join(" · ")
      ),
    ),
    {
      id: "budget",
      header: t("budget.title"),
      width: 150,
      cell: (project) => {
        const worst = project.budget?.limits.toSorted(
          (a, b) => (format.fromWire(b.share) ?? 0) - (format.fromWire(a.share) ?? 0),
        )[0];
        if (!worst) return <span className="dim">{t("budget.noLimit")}</span>;
        return (
          <Meter
            value={format.fromWire(worst.share)}
            tone={worst.exhausted ? "bad" : worst.alerts_given.length > 0 ? "warn" : "run"}
            label={t(`budget.measure.${worst.measure}`)}
          />
        );
      },
    },
    numeric("spent", t("budget.spent"), (project) =>
      t("budget.spentText", {
        hours: amount(project.spending.slot_hours),
        cost: amount(project.spending.cost),
        currency: project.spending.currency,
      }),
    ),
    numeric("experiments", t("nav.experiments"), (project) => (
      <Link to="/experiments" search={{ project: project.name }}>
        {t("projects.experiments", { active: project.num_experiments_active, count: project.num_experiments })}
      </Link>
    )),
  ];
  return (
    <>
      {user?.role === "admin" ? <NewProject /> : null}
      <Section guide="guides/dashboard#nodes-and-settings" title={t("settings.tab.projects")}>
        <PagedList
          query={query}
          empty={<Empty title={t("projects.none")}>{t("projects.noneHint")}</Empty>}
          columns={columns}
          rowKey={(project) => project.id}
          label={t("settings.tab.projects")}
          testId="projects"
        />
      </Section>
      {chosen === undefined ? null : <ProjectPanel key={chosen} name={chosen} />}
    </>
  );
}

function NewProject() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [name, setName] = useState("");
  const [weight, setWeight] = useState<number | string>(1);
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/projects", {
          body: { name: name.trim(), weight: Number(weight), quotas: [], visibility: "all", submission: "members" },
        }),
      ),
    onSuccess: async () => {
      setName("");
      await queryClient.invalidateQueries({ queryKey: ["projects"] });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <Section title={t("projects.create")}>
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>{t("projects.lead")}</p>
      <form onSubmit={submit} className={layout["fields"]} data-testid="project-form">
        <TextInput
          label={t("projects.name")}
          value={name}
          onChange={(e) => setName(e.currentTarget.value)}
          required
          withAsterisk={false}
          maxLength={128}
          w={220}
        />
        <NumberInput
          label={t("projects.weight")}
          value={weight}
          onChange={setWeight}
          min={0.001}
          max={1000}
          step={0.5}
          decimalScale={3}
          w={110}
        />
        <Button type="submit" loading={create.isPending} disabled={name.trim() === "" || !(Number(weight) > 0)}>
          {t("projects.createButton")}
        </Button>
      </form>
      {create.error ? <ErrorNotice error={create.error} /> : null}
    </Section>
  );
}
