import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../../api/queries";
import { Remedies } from "../../../common/experiments/RemedyLinks";
import { Code, Notice } from "../../../components/basics";
import { Message, Reason } from "../../../components/text/Message";
import { Until } from "../../../components/Time";
import * as format from "../../../lib/format";
import { latestAttempt } from "../attempt";
import css from "../trials.module.css";

/** One sentence at the top that says why it waits or failed, with the first failing rank's last words. */
export function Why({ trial: data }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const attempt = latestAttempt(data);
  if (data.state === "FAILED" || data.state === "RETRY_WAIT") {
    const tail = attempt?.root_log_tail ?? [];
    const failed = data.state === "FAILED";
    return (
      <Notice
        tone={failed ? "bad" : "warn"}
        title={
          failed ? (
            <Message kind="terminations" code={data.termination} text={data.reason || t("trial.failed")} />
          ) : (
            t("trial.retry")
          )
        }
        action={
          attempt?.root_rank !== null && attempt?.root_rank !== undefined ? (
            <Link
              to="."
              search={{ tab: "logs", rank: String(attempt.root_rank), attempt: attempt.no }}
              data-testid="root-cause"
            >
              {t("trial.rankLog", { rank: attempt.root_rank })}
            </Link>
          ) : null
        }
      >
        {failed ? null : <Message kind="terminations" code={attempt?.termination} text={data.reason} />}
        {tail.length > 0 ? (
          <div className={css["tail"]}>
            <Code text={tail.join("\n")} testId="last-lines" />
          </div>
        ) : null}
      </Notice>
    );
  }
  if (data.state === "QUEUED" && data.pending_reason)
    return (
      <Notice
        tone={data.is_impossible ? "warn" : "run"}
        title={t(data.is_impossible ? "trial.impossible" : "trial.pending")}
      >
        <span data-testid="waits">
          <Reason text={data.pending_reason} parts={data.pending_parts} />
        </span>{" "}
        {data.is_impossible ? (
          <Remedies experimentId={data.experiment_id} parts={data.pending_parts} />
        ) : data.estimated_start_at ? (
          <span data-testid="expected-start">
            {t("trial.expectedStart")} <Until at={data.estimated_start_at} />
          </span>
        ) : (
          t("trial.noExpectedStart")
        )}
      </Notice>
    );
  const diverged = Object.entries(data.summary).find(
    ([name, entry]) => name.endsWith("loss") && typeof entry.last === "string",
  );
  if ((data.state === "RUNNING" || data.state === "COMPLETED") && diverged) {
    const [name, entry] = diverged;
    return (
      <Notice
        tone="bad"
        title={t("trial.diverged", { name, value: format.num(entry.last), step: format.count(entry.step) })}
      >
        {t("trial.divergedHint")}
      </Notice>
    );
  }
  if (data.state === "STARTING" && attempt) {
    return (
      <Notice title={t("trial.starting", { nodes: attempt.nodes.join(", "), world: attempt.world_size })}>
        {attempt.rendezvous_host ? `${attempt.rendezvous_host}:${attempt.rendezvous_port ?? "…"}` : data.reason}
      </Notice>
    );
  }
  if (data.reason && data.state !== "RUNNING" && data.state !== "COMPLETED")
    return (
      <Notice>
        <Message kind="terminations" code={data.termination} text={data.reason} />
      </Notice>
    );
  return null;
}
