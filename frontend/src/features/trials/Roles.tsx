import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../api/queries";
import { Section } from "../../components/basics";
import { StateBadge } from "../../components/StateBadge";
import { type Column, column, DataTable, lead } from "../../components/tables/DataTable";
import * as format from "../../lib/format";

type Member = TrialDetail["members"][number];

/** The members of a gang of several roles: where each runs, how it is found, and how it ended. */
export function Roles({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  if (trial.members.length === 0) return null;
  const columns: Column<Member>[] = [
    lead("name", t("roles.member"), (m) => (
      <Link
        to="/trials/$trialId"
        params={{ trialId: String(trial.id) }}
        search={{ tab: "logs", rank: m.ranks.join(","), attempt: trial.attempt_no }}
      >
        {m.name}
      </Link>
    )),
    column("state", t("experiments.state"), (m) => <StateBadge state={m.state} />),
    column("node", t("ranks.node"), (m) => m.node_name),
    column("address", t("roles.address"), (m) => <span className="mono">{m.address || format.MISSING}</span>, {
      phone: false,
    }),
    column("onEnd", t("roles.onEnd"), (m) => t(`roles.end.${m.on_end as "finish" | "wait"}`), { phone: false }),
    column(
      "onFailure",
      t("roles.onFailure"),
      (m) => t(`roles.failure.${m.on_failure as "restart_all" | "restart" | "ignore"}`),
      { phone: false },
    ),
    column("exit", t("roles.ended"), (m) => [m.exit, m.message].filter(Boolean).join("; ") || format.MISSING),
  ];
  return (
    <Section title={t("roles.title")} note={t("roles.note")} guide="guides/roles">
      <DataTable
        rows={trial.members}
        columns={columns}
        rowKey={(m) => m.name}
        label={t("roles.title")}
        testId="roles"
      />
    </Section>
  );
}
