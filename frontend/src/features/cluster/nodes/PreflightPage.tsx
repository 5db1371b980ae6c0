import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { me, type Preflight, preflight as preflightQuery } from "../../../api/queries";
import { Lines, Notice, PageHead, Section } from "../../../components/basics";
import { type Column, column, DataTable, lead } from "../../../components/tables/DataTable";
import { QueryView } from "../../../components/QueryView";
import { Stamp } from "../../../components/Time";
import * as format from "../../../lib/format";
import { PreflightButton } from "./PreflightButton";
import { bytesPerS, failures, linkBetween } from "./preflightResult";
import { PreflightState } from "./Preflights";
import layout from "../../../components/layout.module.css";

export function PreflightPage() {
  const { preflightId } = useParams({ from: "/app/preflights/$preflightId" });
  const query = useQuery(preflightQuery(preflightId));
  return (
    <QueryView query={query} isPage>
      {(data) => <PreflightView preflight={data} />}
    </QueryView>
  );
}

function PreflightView({ preflight }: { preflight: Preflight }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const names = preflight.nodes.map((node) => node.node_name);
  const failed = failures(preflight);
  return (
    <>
      <PageHead
        guide="guides/agents#preflight-check-that-nodes-can-train-together"
        title={t("preflight.title", { id: preflight.id })}
        badge={<PreflightState state={preflight.state} />}
        actions={user?.role === "admin" && preflight.state !== "running" ? <PreflightButton chosen={names} /> : null}
        sub={
          <>
            <span>{names.join(", ")}</span>
            <span>
              {preflight.trial_id === null ? (
                t("preflight.by", { who: preflight.requested_by })
              ) : (
                <Link to="/trials/$trialId" params={{ trialId: String(preflight.trial_id) }}>
                  {t("preflight.forTrial", { id: preflight.trial_id, no: preflight.attempt_no ?? 1 })}
                </Link>
              )}
            </span>
            <Stamp at={preflight.created_at} />
          </>
        }
      />
      {preflight.state === "running" ? (
        <Notice title={t("preflight.state.running")}>{t(`preflight.stage.${preflight.stage}`)}</Notice>
      ) : (
        <div data-testid="preflight-verdict">
          <Notice tone={preflight.state === "passed" ? "ok" : "bad"} title={t(`preflight.${preflight.state}`)}>
            {failed.length > 0 ? <Lines items={failed} /> : preflight.message}
          </Notice>
        </div>
      )}
      {preflight.links.length > 0 ? (
        <Section title={t("preflight.pairs")} note={t("preflight.pairsNote")}>
          <Matrix preflight={preflight} names={names} />
          {preflight.allreduce_ms === null ? null : <Together ms={preflight.allreduce_ms} />}
        </Section>
      ) : null}
      <Section title={t("preflight.members")}>
        <Members preflight={preflight} />
      </Section>
    </>
  );
}

function Together({ ms }: { ms: number }) {
  const { t } = useTranslation();
  return (
    <p className={`${layout["text"]} ${layout["aboveXl"]}`}>
      {t("preflight.all")}: {t("preflight.allReduce", { time: format.ms(ms), rate: format.bytes(bytesPerS(ms)) })}{" "}
      <span className="dim">· {t("preflight.allNote")}</span>
    </p>
  );
}

/** From the row to the column. As wide as it has to be, it scrolls in its own box. */
function Matrix({ preflight, names }: { preflight: Preflight; names: string[] }) {
  const { t } = useTranslation();
  const columns: Column<string>[] = [
    lead("from", t("preflight.fromTo"), (from) => <b className={layout["nowrap"]}>{from}</b>),
    ...names.map((to): Column<string> =>
      column(`to-${to}`, to, (from) => <Cell preflight={preflight} from={from} to={to} />),
    ),
  ];
  return (
    <DataTable
      rows={names}
      columns={columns}
      rowKey={(name) => name}
      label={t("preflight.pairs")}
      cards={false}
      testId="preflight-pairs"
    />
  );
}

function Cell({ preflight, from, to }: { preflight: Preflight; from: string; to: string }) {
  const { t } = useTranslation();
  if (from === to) return <span className="dim">{format.MISSING}</span>;
  const link = linkBetween(preflight, from, to);
  if (link === undefined) return <span className="dim">{t("preflight.untried")}</span>;
  if (link.message)
    return (
      <span className={`${layout["bad"]} ${layout["strong"]}`} title={link.message}>
        ✕ {t("preflight.broken")}
      </span>
    );
  return (
    <span className={layout["nowrap"]}>
      {link.round_trip_ms === null ? format.MISSING : format.ms(link.round_trip_ms)}
      {link.allreduce_ms === null ? null : (
        <>
          <br />
          <span className="dim">
            {t("preflight.allReduce", {
              time: format.ms(link.allreduce_ms),
              rate: format.bytes(bytesPerS(link.allreduce_ms)),
            })}
          </span>
        </>
      )}
    </span>
  );
}

function Members({ preflight }: { preflight: Preflight }) {
  const { t } = useTranslation();
  type Member = Preflight["nodes"][number];
  const isOver = preflight.state !== "running";
  const columns: Column<Member>[] = [
    lead("name", t("nodes.name"), (node) => (
      <Link to="/nodes/$nodeId" params={{ nodeId: node.node_id }}>
        {node.node_name}
      </Link>
    )),
    column("address", t("nodes.address"), (node) => <span className="mono">{node.address || format.MISSING}</span>),
    column(
      "torch",
      "torch",
      (node) => node.torch_version || (isOver && preflight.nodes.length > 1 ? t("preflight.noTorch") : format.MISSING),
    ),
    column("own", t("preflight.own"), (node) =>
      node.problems.length > 0 ? (
        <span className={layout["bad"]}>{node.problems.join("; ")}</span>
      ) : isOver ? (
        t("preflight.ownFine")
      ) : (
        format.MISSING
      ),
    ),
  ];
  return (
    <DataTable
      rows={preflight.nodes}
      columns={columns}
      rowKey={(node) => node.rank}
      label={t("preflight.members")}
      testId="preflight-nodes"
    />
  );
}
