import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type DeploymentItem, deploymentList } from "../../api/queries";
import { Code, Empty, PageHead } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedTable } from "../../components/tables/PagedTable";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { DeploymentState } from "./words";

/** All deployments of the server. */
export function Deployments() {
  const { t } = useTranslation();
  const query = useInfiniteQuery(deploymentList());
  useLiveQueries("deployments", ["deployments"]);
  const columns = useColumns();
  return (
    <>
      <PageHead guide="guides/deployments" title={t("nav.deployments")} sub={t("deployments.hint")} />
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0) return <None />;
          return (
            <PagedTable
              query={query}
              rows={items}
              rowKey={(each) => each.name}
              label={t("nav.deployments")}
              testId="deployments"
              columns={columns}
            />
          );
        }}
      </QueryView>
    </>
  );
}

function None() {
  const { t } = useTranslation();
  return (
    <Empty title={t("deployments.none")} action={<Code text="muster deploy digits@production --replicas 2" />}>
      {t("deployments.noneHint")}
    </Empty>
  );
}

function useColumns(): Column<DeploymentItem>[] {
  const { t } = useTranslation();
  return [
    lead("name", t("deployments.name"), (each) => (
      <Link to="/deployments/$name" params={{ name: each.name }}>
        {each.name}
      </Link>
    )),
    column("state", t("deployments.state"), (each) => <DeploymentState state={each.state} />),
    column("serves", t("deployments.serves"), (each) => <Served of={each} />),
    numeric("replicas", t("deployments.replicas"), (each) =>
      t("deployments.ready", { ready: each.num_ready, wanted: each.num_replicas }),
    ),
    numeric("rate", t("deployments.rate"), (each) => format.num(each.requests_per_s)),
    numeric("p50", t("deployments.p50"), (each) => latency(each.latency_p50_ms), { phone: false }),
    numeric("p99", t("deployments.p99"), (each) => latency(each.latency_p99_ms)),
    numeric("errors", t("deployments.errors"), (each) => format.count(each.num_errors)),
    column("owner", t("deployments.owner"), (each) => each.owner ?? format.MISSING, { phone: false }),
    numeric("changed", t("deployments.changed"), (each) => <Ago at={each.updated_at} />),
  ];
}

/** The version that a deployment serves, or is to. */
export function Served({ of }: { of: { model: string; version: number; reference: string } }) {
  return (
    <Link
      to="/models/$name/versions/$number"
      params={{ name: of.model, number: String(of.version) }}
      title={of.reference}
    >
      {of.model}:{of.version}
    </Link>
  );
}

export const latency = (ms: number | null): string => (ms === null ? format.MISSING : format.num(ms));
