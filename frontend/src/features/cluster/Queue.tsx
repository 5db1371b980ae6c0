import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { cluster, queue } from "../../api/queries";
import { Empty, LoadMore, PageHead } from "../../components/basics";
import { DataTable } from "../../components/DataTable";
import { LinkButton } from "../../components/LinkButton";
import { QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { Ago, Until } from "../../components/Time";

export function Queue() {
  const { t } = useTranslation();
  const query = useInfiniteQuery(queue);
  const state = useQuery(cluster).data;
  useLiveQueries("cluster", ["queue"], ["cluster"]);
  useLiveQueries("experiments", ["queue"]);
  const free = state ? Math.max(0, state.num_slots - state.num_slots_used) : 0;
  return (
    <>
      <PageHead title={t("nav.queue")} sub={state ? t("queue.free", { free, all: state.num_slots }) : null} />
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          return items.length === 0 ? (
            <Empty title={t("queue.empty")} action={<LinkButton to="/submit">{t("nav.submit")}</LinkButton>}>
              {state ? t("queue.free", { free, all: state.num_slots }) : null}
            </Empty>
          ) : (
            <>
              <DataTable
                rows={items}
                rowKey={(item) => item.trial_id}
                label={t("nav.queue")}
                testId="queue"
                columns={[
                  { id: "position", header: "#", align: "right", cell: (item) => item.position ?? "–", width: 40 },
                  {
                    id: "name",
                    header: t("queue.trial"),
                    lead: true,
                    cell: (item) => (
                      <Link to="/trials/$trialId" params={{ trialId: String(item.trial_id) }}>
                        {item.experiment_name} <span className="dim">· {t("trial.no", { no: item.trial_no })}</span>
                      </Link>
                    ),
                  },
                  { id: "reason", header: t("queue.reason"), cell: (item) => <span data-testid="pending-reason">{item.pending_reason || t("queue.noReason")}</span> },
                  { id: "slots", header: t("queue.asks"), cell: (item) => t(item.min_slots < item.num_slots ? "queue.elastic" : "queue.slots", { min: item.min_slots, count: item.num_slots, type: item.slot_type, pool: item.pool }) },
                  { id: "priority", header: t("queue.priority"), align: "right", cell: (item) => item.priority },
                  { id: "owner", phone: false, header: t("queue.owner"), cell: (item) => item.owner ?? "–" },
                  { id: "state", phone: false, header: t("queue.state"), cell: (item) => <StateBadge state={item.state} plain /> },
                  { id: "since", header: t("queue.waiting"), align: "right", cell: (item) => <Ago at={item.waiting_since} short /> },
                  { id: "starts", header: t("queue.starts"), align: "right", cell: (item) => <Until at={item.estimated_start_at} /> },
                ]}
              />
              <LoadMore shown={items.length} hasMore={query.hasNextPage} loading={query.isFetchingNextPage} onMore={() => void query.fetchNextPage()} />
            </>
          );
        }}
      </QueryView>
    </>
  );
}
