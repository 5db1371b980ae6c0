import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { sessions } from "../../../api/queries";
import { Clamped, Section } from "../../../components/basics";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { QueryView } from "../../../components/QueryView";
import { actions, column, DataTable, lead } from "../../../components/tables/DataTable";
import { Ago } from "../../../components/Time";
import { browserName } from "./browserName";

type Session = Schemas["SessionOut"];

/** Browsers in which the user is signed in, each of the others with a button that signs it out. */
export function Sessions() {
  const { t } = useTranslation();
  const query = useQuery(sessions);
  const [ending, setEnding] = useState<Session | null>(null);
  const nameOf = (session: Session): string => browserName(session.user_agent) || t("sessions.unknown");
  return (
    <Section guide="guides/operations#users" title={t("sessions.title")}>
      <QueryView query={query}>
        {(data) => (
          <DataTable<Session>
            rows={data.items}
            rowKey={(session) => session.id}
            label={t("sessions.title")}
            testId="sessions"
            columns={[
              lead("browser", t("sessions.browser"), (session) => (
                <span title={session.user_agent}>
                  <Clamped text={nameOf(session)} />
                </span>
              )),
              column("address", t("sessions.address"), (session) => session.remote_addr || "–"),
              column("created", t("sessions.created"), (session) => <Ago at={session.created_at} />),
              column("seen", t("sessions.seen"), (session) => <Ago at={session.last_seen_at} />),
              actions("end", t("common.rowActions"), (session) =>
                session.is_current ? (
                  <span className="dim">{t("sessions.current")}</span>
                ) : (
                  <Button variant="subtle" color="red" size="compact-xs" onClick={() => setEnding(session)}>
                    {t("sessions.end")}
                  </Button>
                ),
              ),
            ]}
          />
        )}
      </QueryView>
      {ending ? (
        <ConfirmAction
          title={t("sessions.endTitle")}
          action={t("sessions.end")}
          run={() =>
            unwrap(client.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: ending.id } } }))
          }
          changes={["sessions"]}
          onClose={() => setEnding(null)}
        >
          {t("sessions.endText", { name: nameOf(ending) })}
        </ConfirmAction>
      ) : null}
    </Section>
  );
}
