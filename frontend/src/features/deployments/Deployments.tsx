import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type DeploymentItem, deploymentList } from "../../api/queries";
import { VersionLink } from "../../common/models/VersionLink";
import { Code, Empty, PageHead } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
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
      <PagedList
        query={query}
        empty={<None />}
        rowKey={(each) => each.name}
        label={t("nav.deployments")}
        testId="deployments"
        columns={columns}
      />
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
    column("serves", t("deployments.serves"), (each) => (
      <VersionLink model={each.model} version={each.version} title={each.reference} />
    )),
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

export const latency = (ms: number | null): string => (ms === null ? format.MISSING : format.num(ms));
