import { Button } from "@mantine/core";
import { IconTerminal2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { experiment, type InteractiveSession, interactiveSessions, me } from "../../api/queries";
import { Code, Empty, Notice, PageHead } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { actions, type Column, column, DataTable, lead } from "../../components/tables/DataTable";
import { Reason } from "../../components/text/Message";
import { Until } from "../../components/Time";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import { KIND_NAMES } from "./sessionDocument";
import { StartSession } from "./StartSession";

/** Sessions that have not ended: where they run, how they are entered and by whom, and when they end. */
export function Sessions() {
  const { t } = useTranslation();
  const query = useQuery(interactiveSessions);
  useLiveQueries("experiments", interactiveSessions.queryKey);
  const navigate = useNavigate({ from: "/sessions" });
  const { from } = useSearch({ from: "/app/sessions" });
  const source = useQuery({ ...experiment(from ?? 0), enabled: from !== undefined });
  const mayStart = useQuery(me).data?.role !== "viewer";
  const [isNew, setIsNew] = useState(false);
  const [started, setStarted] = useState<number | null>(null);
  const [asked, setAsked] = useState<InteractiveSession | null>(null);
  const close = (): void => {
    setIsNew(false);
    if (from !== undefined) void navigate({ search: {}, replace: true });
  };
  const columns: Column<InteractiveSession>[] = [
    lead("name", t("interactive.name"), (one) => (
      <Link to="/experiments/$experimentId" params={{ experimentId: String(one.experiment_id) }}>
        {one.name} <span className="dim">#{one.experiment_id}</span>
      </Link>
    )),
    column("kind", t("interactive.kind"), (one) => KIND_NAMES[one.kind] ?? t("interactive.shell")),
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
      <PageHead
        guide="guides/sessions"
        title={t("nav.sessions")}
        sub={t("interactive.hint")}
        actions={
          mayStart ? (
            <Button
              leftSection={<IconTerminal2 size={15} aria-hidden />}
              onClick={() => setIsNew(true)}
              data-testid="start-session"
            >
              {t("interactive.start")}
            </Button>
          ) : null
        }
      />
      {source.error ? <ErrorNotice error={source.error} onRetry={source.refetch} /> : null}
      {started === null ? null : <Started id={started} sessions={query.data ?? []} />}
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
      {mayStart && (isNew || source.data) ? (
        <StartSession
          source={source.data}
          onStart={(id) => {
            setStarted(id);
            close();
          }}
          onClose={close}
        />
      ) : null}
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

/** What became of the session that was started here, and how it is entered. */
function Started({ id, sessions }: { id: number; sessions: readonly InteractiveSession[] }) {
  const { t } = useTranslation();
  const listed = sessions.find((one) => one.experiment_id === id);
  const about = useQuery(experiment(id)).data;
  useLiveQueries(`experiment:${id}`, ["experiment", id]);
  const state = listed?.state ?? about?.state;
  if (state === undefined) return null;
  const isRunning = listed?.state === "RUNNING";
  const hasEnded = isTerminal(state);
  return (
    <Notice
      tone={isRunning ? "ok" : hasEnded ? "warn" : "run"}
      title={
        <>
          <Link to="/experiments/$experimentId" params={{ experimentId: String(id) }}>
            {t("interactive.started", { name: listed?.name ?? about?.name ?? "", id })}
          </Link>{" "}
          <StateBadge state={state} />
        </>
      }
    >
      <div data-testid="session-started" data-state={state}>
        {isRunning ? (
          <>
            {t("interactive.enterBy")}
            <Code text={`muster session open ${id}`} />
            {listed.kind === "ssh" ? (
              <>
                {t("interactive.enterBySsh")}
                <Code text={`muster ssh-config && ssh muster-${id}`} />
              </>
            ) : null}
          </>
        ) : hasEnded ? (
          t("interactive.ended")
        ) : (
          t("interactive.waiting")
        )}
      </div>
    </Notice>
  );
}

function Ends({ session }: { session: InteractiveSession }) {
  const { t } = useTranslation();
  if (session.is_in_use === null) return format.MISSING;
  if (session.is_in_use) return t("interactive.inUse", { idle: session.idle });
  return <Until at={session.ends_at} />;
}
