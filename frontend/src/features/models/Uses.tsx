import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { modelLineage, type ModelUse, type ModelVersion } from "../../api/queries";
import { VersionLink } from "../../common/models/VersionLink";
import { Code, Empty, KeyValues, Section } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { Ago } from "../../components/Time";
import { estimates, rangeText } from "../../lib/estimates";
import * as format from "../../lib/format";
import { Lineage } from "./Lineage";

/** From the data of a version to what was done with it. */
export function Uses({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const query = useQuery(modelLineage(version.model, version.number));
  return (
    <QueryView query={query}>
      {(lineage) => (
        <>
          <Section title={t("models.comesFrom")} note={t("models.lineageHint")}>
            <Lineage version={version} />
          </Section>
          {lineage.read.length > 0 ? (
            <Section title={t("models.trainedWith")}>
              <Versions versions={lineage.read.map((use) => ({ ...use, note: t(`models.kind.${use.kind}`) }))} />
            </Section>
          ) : null}
          <Section title={t("models.usedIn")} testId="version-uses">
            {lineage.uses.length === 0 ? (
              <Empty
                title={t("models.noUses")}
                action={<Code text={`muster model evaluate ${version.model}:${version.number} --data digits`} />}
              />
            ) : (
              <UseTable uses={lineage.uses} />
            )}
          </Section>
          {lineage.produced.length > 0 ? (
            <Section title={t("models.produced")}>
              <Versions versions={lineage.produced.map((each) => ({ ...each, note: `#${each.experiment_id}` }))} />
            </Section>
          ) : null}
        </>
      )}
    </QueryView>
  );
}

function Versions({ versions }: { versions: { model: string; version: number; note: string }[] }) {
  return (
    <KeyValues
      items={versions.map((each) => [
        <VersionLink key="version" model={each.model} version={each.version} />,
        <span key="note">{each.note}</span>,
      ])}
    />
  );
}

function UseTable({ uses }: { uses: ModelUse[] }) {
  const { t } = useTranslation();
  const columns: Column<ModelUse>[] = [
    lead("kind", t("models.use"), (use) => t(`models.kind.${use.kind}`)),
    column("experiment", t("models.experiment"), (use) => (
      <Link to="/experiments/$experimentId" params={{ experimentId: String(use.experiment_id) }}>
        {`#${use.experiment_id} ${use.experiment_name}`}
      </Link>
    )),
    column("state", t("models.state"), (use) => <StateBadge state={use.experiment_state} />),
    column("result", t("models.result"), (use) => <Result use={use} />),
    numeric("at", t("models.when"), (use) => <Ago at={use.created_at} />),
  ];
  return <DataTable rows={uses} rowKey={(use) => use.id} label={t("models.usedIn")} testId="uses" columns={columns} />;
}

/** The first metrics of an evaluation; other results are on the page of their job. */
function Result({ use }: { use: ModelUse }) {
  const metrics = use.result?.["metrics"];
  if (typeof metrics !== "object" || metrics === null) return format.MISSING;
  return estimates(metrics as Record<string, number>)
    .slice(0, 2)
    .map((each) => `${each.name} ${format.metric(each.name, each.value)} ${rangeText(each)}`.trim())
    .join(", ");
}
