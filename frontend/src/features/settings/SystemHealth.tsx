import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { cluster, health, type Health, nodes } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";
import { column, DataTable, lead } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import ui from "../../components/ui.module.css";
import { Licenses } from "./Licenses";
import { agentVersions, type Part, partsOf } from "./systemParts";

/** Whether every part of the server works, which versions run, and whose work the dashboard contains. */
export function SystemHealth() {
  const { t } = useTranslation();
  const query = useQuery(health);
  return (
    <>
      <Section
        guide="guides/operations#health"
        title={t("installation.health.title")}
        note={t("installation.health.note")}
        testId="health"
      >
        <QueryView query={query}>{(data) => <Parts health={data} />}</QueryView>
      </Section>
      <Versions />
      <Licenses />
    </>
  );
}

function Parts({ health: data }: { health: Health }) {
  const { t } = useTranslation();
  return (
    <DataTable<Part>
      rows={partsOf(data)}
      rowKey={(part) => part.name}
      label={t("installation.health.title")}
      testId="parts"
      columns={[
        lead("part", t("installation.part"), ({ name }) => <b>{t(`installation.parts.${name}`)}</b>),
        column("state", t("installation.state"), ({ state, tone }) => (
          <span className={ui["badge"]} data-tone={tone}>
            {t(`installation.states.${state}`)}
          </span>
        )),
        column("effect", t("installation.effect"), ({ name, state, tone, loop }) => (
          <span className={tone === "ok" ? "dim" : undefined}>
            {state === "refuses_writes"
              ? t("installation.withoutWrites")
              : t(`installation.${tone === "ok" ? "does" : "without"}.${name}`)}
            {loop === null ? null : ` ${t("installation.failingLoop", { loop })}`}
          </span>
        )),
      ]}
    />
  );
}

function Versions() {
  const { t } = useTranslation();
  const server = useQuery(cluster).data?.server_version;
  const list = useQuery(nodes).data ?? [];
  useLiveQueries("cluster", ["nodes"]);
  const agents = agentVersions(list).map(({ version, count }) => t("installation.agents", { version, count }));
  const shown = agents.length > 0 ? agents.join(", ") : t("installation.noAgents");
  return (
    <Section title={t("installation.versions")}>
      <KeyValues
        items={[
          [t("installation.server"), server ?? ""],
          [t("installation.agentsOf"), shown],
        ]}
      />
    </Section>
  );
}
