import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import { type AuditEntry, auditTrail } from "../../api/queries";
import { Empty, Section } from "../../components/basics";
import { type Column, column, lead } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { Stamp } from "../../components/Time";
import { useTyped } from "../../components/useTyped";
import { detailText, subjectOf } from "./auditText";
import layout from "../../components/layout.module.css";
import css from "./settings.module.css";
import { word } from "../../i18n/words";

const TYPED_MS = 300;

/** Who did what, newest first. */
export function Audit() {
  const { t } = useTranslation();
  const { q } = useSearch({ from: "/app/settings" });
  const navigate = useNavigate({ from: "/settings" });
  const [text, setText] = useTyped(q, TYPED_MS, (next) => {
    void navigate({ search: (before) => ({ ...before, q: next }), replace: true });
  });
  const query = useInfiniteQuery(auditTrail(q));
  return (
    <Section guide="guides/operations#audit-log" title={t("settings.tab.audit")} note={t("audit.note")}>
      <TextInput
        className={layout["belowL"]}
        aria-label={t("audit.find")}
        placeholder={t("audit.find")}
        leftSection={<IconSearch size={14} aria-hidden />}
        maxLength={200}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        maw={320}
        data-filter
        data-testid="audit-find"
      />
      <PagedList
        query={query}
        empty={<Empty title={t(q ? "audit.noMatch" : "audit.none")} />}
        rowKey={({ id }) => id}
        label={t("settings.tab.audit")}
        columns={columnsOf(t)}
        testId="audit"
      />
    </Section>
  );
}

function columnsOf(t: TFunction): Column<AuditEntry>[] {
  return [
    column("at", t("audit.at"), (entry) => <Stamp at={entry.at} />),
    lead("action", t("audit.did"), (entry) => (
      <span title={entry.action}>{word(t, "audit.action", entry.action)}</span>
    )),
    column("subject", t("audit.subject"), (entry) => <Subject subject={entry.subject} />),
    column("actor", t("audit.actor"), (entry) => <span className="mono">{entry.actor}</span>),
    {
      id: "addr",
      phone: false,
      header: t("audit.address"),
      cell: (entry) => <span className="mono">{entry.remote_addr}</span>,
    },
    {
      id: "detail",
      phone: false,
      header: t("audit.detail"),
      cell: (entry) => {
        const detail = detailText(entry.detail);
        return (
          <span className={`mono dim ${css["detail"]}`} title={detail}>
            {detail}
          </span>
        );
      },
    },
  ];
}

/** What it was done to, as a link where there is a page. */
function Subject({ subject }: { subject: string }) {
  const { t } = useTranslation();
  const { kind, id } = subjectOf(subject);
  if (kind === "experiment")
    return (
      <Link to="/experiments/$experimentId" params={{ experimentId: id }}>
        {t("experiment.ref", { id })}
      </Link>
    );
  if (kind === "trial")
    return (
      <Link to="/trials/$trialId" params={{ trialId: id }}>
        {t("audit.trial", { id })}
      </Link>
    );
  return <span className="mono">{subject}</span>;
}
