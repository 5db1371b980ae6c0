import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { type InteractiveSession, interactiveSessions } from "../../api/queries";
import { Code, Empty, PageHead } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { actions, type Column, column, DataTable, lead } from "../../components/tables/DataTable";
import { Reason } from "../../components/text/Message";
import { Until } from "../../components/Time";
import * as format from "../../lib/format";

/** Names that are the same in every language. */
const KINDS: Partial<Record<string, string>> = { ssh: "SSH", jupyter: "Jupyter", code: "VS Code" };

/** Sessions that have not ended: where they run, how they are entered and by whom, and when they end. */
export function Sessions() {
  const { t } = useTranslation();
  const query = useQuery(interactiveSessions);
  useLiveQueries("experiments", interactiveSessions.queryKey);
  const [asked, setAsked] = useState<InteractiveSession | null>(null);
  const columns: Column<InteractiveSession>[] = [
    lead("name", t("interactive.name"), (one) => (
      <Link to="/experiments/$experimentId" params={{ experimentId: String(one.experiment_id) }}>
        {one.name} <span className="dim">#{one.experiment_id}</span>
      </Link>
    )),
    column("kind", t("interactive.kind"), (one) => KINDS[one.kind] ?? t("interactive.shell")),
    column("state", t("interactive.state"), (one) => (
      <span>
        <StateBadge state={one.state} />{" "}
        {one.reason === "" ? null : <Reason text={one.reason} parts={one.reason_parts} />}
      </span>
    )),
    column("where", t("interactive.where"), (one) =>
      [one.node, t("interactive.slots", { count: one.slots })].filter((part) => part !== null).join(" · "),
    ),
    column("open", t("interactive.open"), (one) =>
      one.may_enter ? <Code text={`muster session open ${one.experiment_id}`} /> : t("interactive.notYours"),
    ),
    column("who", t("interactive.who"), ({ owner }) =>
      owner === null ? t("interactive.administrators") : t("interactive.ownerAndAdministrators", { owner }),
    ),
    column("ends", t("interactive.ends"), (one) => <Ends session={one} />),
    actions("stop", t("common.rowActions"), (one) =>
      one.may_enter ? (
        <Button variant="subtle" color="red" size="compact-xs" onClick={() => setAsked(one)}>
          {t("interactive.stop")}
        </Button>
      ) : null,
    ),
  ];
  return (
    <>
      <PageHead guide="guides/sessions" title={t("nav.sessions")} sub={t("interactive.hint")} />
      <QueryView query={query}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title={t("interactive.none")} action={<Code text="muster session start --kind jupyter" />}>
              {t("interactive.noneHint")}
            </Empty>
          ) : (
            <DataTable
              rows={rows}
              columns={columns}
              rowKey={(one) => one.experiment_id}
              label={t("nav.sessions")}
              testId="sessions"
            />
          )
        }
      </QueryView>
      {asked === null ? null : (
        <ConfirmAction
          title={t("interactive.stopTitle", { name: asked.name })}
          action={t("interactive.stop")}
          onClose={() => setAsked(null)}
          run={() =>
            unwrap(
              client.POST("/api/v1/experiments/{experiment_id}:stop", {
                params: { path: { experiment_id: asked.experiment_id } },
              }),
            )
          }
        >
          {t("interactive.stopText")}
        </ConfirmAction>
      )}
    </>
  );
}

function Ends({ session }: { session: InteractiveSession }) {
  const { t } = useTranslation();
  if (session.is_in_use === null) return format.MISSING;
  if (session.is_in_use) return t("interactive.inUse", { idle: session.idle });
  return <Until at={session.ends_at} />;
}
