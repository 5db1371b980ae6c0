import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type Cluster, queueHead, type QueueItem } from "../../api/queries";
import { Section, Skeleton } from "../../components/basics";
import { Reason } from "../../components/text/Message";
import { QueryView } from "../../components/QueryView";
import { Until } from "../../components/Time";
import css from "./cluster.module.css";

/** What waits: how much, and what is next. isWide: a line for each, with the whole reason. */
export function QueueSummary({ cluster, isWide = false }: { cluster: Cluster | undefined; isWide?: boolean }) {
  const { t } = useTranslation();
  const query = useQuery(queueHead);
  const waiting = cluster?.num_trials_queued ?? 0;
  return (
    <Section
      title={t("overview.next")}
      note={<Link to="/queue">{waiting > 0 ? t("overview.wholeQueue", { count: waiting }) : t("nav.queue")}</Link>}
      testId="queue-summary"
    >
      <QueryView query={query} skeleton={<Skeleton rows={5} />}>
        {(items) =>
          items.length === 0 ? (
            <p className={css["quiet"]}>
              {t("overview.nothingWaits")}{" "}
              {cluster
                ? t("queue.free", {
                    free: cluster.num_slots_free,
                    all: cluster.num_slots,
                  })
                : null}
            </p>
          ) : (
            <ol className={css["next"]} data-wide={isWide || undefined}>
              {items.map((item) => (
                <Next key={item.trial_id} item={item} />
              ))}
            </ol>
          )
        }
      </QueryView>
    </Section>
  );
}

function Next({ item }: { item: QueueItem }) {
  const { t } = useTranslation();
  return (
    <li>
      <div className={css["nextHead"]}>
        <Link to="/trials/$trialId" params={{ trialId: String(item.trial_id) }} title={item.experiment_name}>
          {item.experiment_name}
          {item.trial_no > 1 ? ` · ${t("trial.no", { no: item.trial_no })}` : ""}
        </Link>
        <span className="dim num">
          {item.is_impossible ? (
            <b className={css["cannot"]}>{t("trial.impossible")}</b>
          ) : item.estimated_start_at ? (
            <Until at={item.estimated_start_at} />
          ) : (
            t("queue.noEstimate")
          )}
        </span>
      </div>
      <div className={css["nextWhy"]} title={item.pending_reason}>
        {item.pending_reason ? <Reason text={item.pending_reason} parts={item.pending_parts} /> : t("queue.noReason")}
      </div>
    </li>
  );
}
