import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../api/queries";
import { Section } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { Message } from "../../components/text/Message";
import { StateBadge } from "../../components/StateBadge";
import { Elapsed, Stamp } from "../../components/Time";
import * as format from "../../lib/format";

type Attempt = TrialDetail["attempts"][number];

/** Every launch of the trial, the last first: where it ran, from which step, and why it ended. */
export function Attempts({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  if (trial.attempts.length < 2) return null;
  const columns: Column<Attempt>[] = [
    lead("no", t("ranks.attempt"), (attempt) => (
      <Link to="." search={{ tab: "logs", attempt: attempt.no }}>
        {t("ranks.attemptNo", { no: attempt.no })}
      </Link>
    )),
    column("state", t("experiments.state"), (attempt) => <StateBadge state={attempt.state} />),
    column("reason", t("ranks.reason"), (attempt) =>
      attempt.reason ? (
        <Message kind="terminations" code={attempt.termination} text={attempt.reason} />
      ) : (
        format.MISSING
      ),
    ),
    numeric("world", t("ranks.world"), (attempt) => format.count(attempt.world_size)),
    column("nodes", t("nav.nodes"), (attempt) => attempt.nodes.join(", "), { phone: false }),
    numeric("from", t("attempts.from"), (attempt) =>
      attempt.resume_step > 0 ? format.count(attempt.resume_step) : t("attempts.fresh"),
    ),
    column("started", t("ranks.started"), (attempt) => <Stamp at={attempt.started_at ?? attempt.created_at} />),
    numeric("lasted", t("ranks.lasted"), (attempt) => <Elapsed start={attempt.started_at} end={attempt.ended_at} />),
  ];
  return (
    <Section
      title={t("attempts.title")}
      note={
        trial.attempt_no > trial.attempts.length
          ? t("attempts.latest", { shown: trial.attempts.length, all: trial.attempt_no })
          : null
      }
    >
      <DataTable
        rows={trial.attempts}
        columns={columns}
        rowKey={(attempt) => attempt.no}
        label={t("attempts.title")}
        testId="attempts"
      />
    </Section>
  );
}
