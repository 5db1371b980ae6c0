import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type DeploymentItem, deploymentList } from "../../api/queries";
import { Code, Empty, PageHead } from "../../components/basics";
import type { Column } from "../../components/tables/DataTable";
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
    {
      id: "name",
      header: t("deployments.name"),
      lead: true,
      cell: (each) => (
        <Link to="/deployments/$name" params={{ name: each.name }}>
          {each.name}
        </Link>
      ),
    },
    { id: "state", header: t("deployments.state"), cell: (each) => <DeploymentState state={each.state} /> },
    { id: "serves", header: t("deployments.serves"), cell: (each) => <Served of={each} /> },
    {
      id: "replicas",
      header: t("deployments.replicas"),
      align: "right",
      cell: (each) => t("deployments.ready", { ready: each.num_ready, wanted: each.num_replicas }),
    },
    {
      id: "rate",
      header: t("deployments.rate"),
      align: "right",
      cell: (each) => format.num(each.requests_per_s),
    },
    {
      id: "p50",
      header: t("deployments.p50"),
      align: "right",
      phone: false,
      cell: (each) => latency(each.latency_p50_ms),
    },
    { id: "p99", header: t("deployments.p99"), align: "right", cell: (each) => latency(each.latency_p99_ms) },
    {
      id: "errors",
      header: t("deployments.errors"),
      align: "right",
      cell: (each) => format.count(each.num_errors),
    },
    { id: "owner", phone: false, header: t("deployments.owner"), cell: (each) => each.owner ?? format.MISSING },
    { id: "changed", header: t("deployments.changed"), align: "right", cell: (each) => <Ago at={each.updated_at} /> },
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
