import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type NodeAllocation, nodeAllocations } from "../../../api/queries";
import { Clamped, Empty, Section } from "../../../components/basics";
import { type Column, column, lead, numeric } from "../../../components/tables/DataTable";
import { PagedList } from "../../../components/tables/PagedTable";
import { Stamp } from "../../../components/Time";
import * as format from "../../../lib/format";

/** What ran on a node and what runs there, newest first, page by page. */
export function NodeHistory({ nodeId }: { nodeId: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(nodeAllocations(nodeId));
  const columns: Column<NodeAllocation>[] = [
    lead("trial", t("queue.trial"), (item) => (
      <Link to="/trials/$trialId" params={{ trialId: String(item.trial_id) }}>
        <Clamped
          text={`${item.experiment_name} · ${t("nodes.historyTrial", { no: item.trial_no, attempt: item.attempt_no })}`}
        />
      </Link>
    )),
    numeric("slots", t("nodes.slots"), (item) => item.num_slots, { width: 80 }),
    column("from", t("nodes.historyFrom"), (item) => <Stamp at={item.created_at} />, { width: 170 }),
    {
      id: "for",
      header: t("nodes.historyFor"),
      align: "right",
      width: 110,
      cell: (item) =>
        item.ended_at === null ? (
          <span className="dim">{t("nodes.historyStill")}</span>
        ) : (
          format.duration((Date.parse(item.ended_at) - Date.parse(item.created_at)) / 1000)
        ),
    },
    column("end", t("nodes.historyEnd"), (item) =>
      item.message ? <Clamped text={item.message} /> : <span className="dim">{format.MISSING}</span>,
    ),
  ];
  return (
    <Section title={t("nodes.history")}>
      <PagedList
        query={query}
        empty={<Empty title={t("nodes.historyEmpty")} />}
        columns={columns}
        rowKey={(item) => item.id}
        label={t("nodes.history")}
        testId="node-history"
      />
    </Section>
  );
}
