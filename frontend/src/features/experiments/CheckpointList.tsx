import { Badge, Button, Group, SegmentedControl, Select } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { checkpointList, type CheckpointListItem as Item, type CheckpointState, me } from "../../api/queries";
import type { CheckpointSearch } from "../../app/search";
import { Empty } from "../../components/basics";
import type { Column } from "../../components/DataTable";
import { LinkButton } from "../../components/LinkButton";
import { PagedTable } from "../../components/PagedTable";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { CleaningDialog } from "../../common/checkpoints/CleaningDialog";
import { FromScript } from "../../common/checkpoints/FromScript";
import { Pinned, PinButton } from "../../common/checkpoints/PinButton";

const STATES: CheckpointState[] = ["complete", "deleting", "deleted"];

interface Props extends CheckpointSearch {
  /** Null: of all experiments. */
  experimentId: number | null;
  project?: string;
  set: (change: CheckpointSearch) => void;
}

/** isOfAll: of all experiments, each of which is named then. */
function useColumns(isOfAll: boolean, mayChange: boolean): Column<Item>[] {
  const { t } = useTranslation();
  return [
    ...(isOfAll
      ? [
          {
            id: "experiment",
            header: t("checkpointList.experiment"),
            lead: true,
            cell: (c: Item) => (
              <Link
                to="/experiments/$experimentId"
                params={{ experimentId: String(c.experiment_id) }}
                search={{ tab: "checkpoints" }}
              >
                {c.experiment_name}
              </Link>
            ),
          },
        ]
      : []),
    {
      id: "trial",
      header: t("cleaning.trial"),
      lead: !isOfAll,
      cell: (c) => (
        <Link to="/trials/$trialId" params={{ trialId: String(c.trial_id) }} search={{ tab: "checkpoints" }}>
          {t("nav.trialNo", { no: c.trial_no })}
        </Link>
      ),
    },
    {
      id: "step",
      header: t("checkpoints.step"),
      align: "right",
      cell: (c) => (
        <span>
          <FromScript checkpoint={c} /> <Pinned checkpoint={c} />{" "}
          {c.is_latest ? (
            <Badge size="xs" variant="light">
              {t("checkpoints.latest")}
            </Badge>
          ) : null}{" "}
          <span className="num">{format.count(c.step)}</span>
        </span>
      ),
    },
    {
      id: "metric",
      header: t("checkpointList.metric"),
      align: "right",
      cell: (c) =>
        c.metric_name ? (
          <span>
            <span className="dim">{c.metric_name}</span> {format.metric(c.metric_name, c.metric)}
          </span>
        ) : (
          format.MISSING
        ),
    },
    { id: "size", header: t("checkpoints.size"), align: "right", cell: (c) => format.bytes(c.size_bytes) },
    { id: "state", header: t("checkpoints.state"), cell: (c) => t(`checkpointList.${c.state as CheckpointState}`) },
    { id: "node", phone: false, header: t("ranks.node"), cell: (c) => c.node_name },
    { id: "at", header: t("checkpoints.saved"), align: "right", cell: (c) => <Ago at={c.created_at} /> },
    {
      id: "fork",
      header: t("common.rowActions"),
      quiet: true,
      align: "right",
      cell: (c) =>
        mayChange && c.state === "complete" ? (
          <Group gap={4} justify="flex-end" wrap="nowrap">
            <PinButton checkpoint={c} />
            <LinkButton
              variant="subtle"
              size="compact-xs"
              to="/submit"
              search={{ from: c.experiment_id, start: String(c.id) }}
              data-testid="fork-here"
            >
              {t("fork.here")}
            </LinkButton>
          </Group>
        ) : null,
    },
  ];
}

/** Checkpoints of many trials, what they take together, and what can be done with each. */
export function CheckpointList({ experimentId, project, saved, order, set }: Props) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const mayChange = user !== undefined && user.role !== "viewer";
  const query = useInfiniteQuery(
    checkpointList({ experiment: experimentId ?? undefined, project, state: saved, order }),
  );
  const [cleaning, setCleaning] = useState<number | null>(null);
  const columns = useColumns(experimentId === null, mayChange);
  return (
    <>
      <Group mb="xs">
        <SegmentedControl
          aria-label={t("checkpointList.order")}
          value={order ?? "newest"}
          onChange={(value) => set({ order: value === "largest" ? "largest" : undefined })}
          data={[
            { value: "newest", label: t("checkpointList.newest") },
            { value: "largest", label: t("checkpointList.largest") },
          ]}
        />
        <Select
          aria-label={t("checkpoints.state")}
          placeholder={t("checkpointList.everyState")}
          clearable
          w={170}
          value={saved ?? null}
          onChange={(value) => set({ saved: (value as CheckpointState | null) ?? undefined })}
          data={STATES.map((name) => ({ value: name, label: t(`checkpointList.${name}`) }))}
          data-testid="checkpoint-state"
        />
        {experimentId !== null ? (
          <Button variant="default" onClick={() => setCleaning(experimentId)} data-testid="cleaning-open">
            {t("cleaning.open")}
          </Button>
        ) : null}
      </Group>
      {cleaning !== null ? (
        <CleaningDialog experimentId={cleaning} mayClean={mayChange} onClose={() => setCleaning(null)} />
      ) : null}
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          const totals = data.pages[0]?.totals ?? [];
          return (
            <>
              {totals.length > 0 ? (
                <p className="dim" data-testid="checkpoint-totals">
                  {totals
                    .map((total) =>
                      t(total.state === "deleted" ? "checkpointList.freed" : "checkpointList.total", {
                        n: format.count(total.num_checkpoints),
                        size: format.bytes(total.size_bytes),
                        state: t(`checkpointList.${total.state as CheckpointState}`),
                      }),
                    )
                    .join(" · ")}
                </p>
              ) : null}
              {items.length === 0 ? (
                saved ? (
                  <Empty
                    title={t("checkpointList.noMatch")}
                    action={
                      <Button variant="default" onClick={() => set({ saved: undefined })}>
                        {t("common.clearFilters")}
                      </Button>
                    }
                  />
                ) : (
                  <Empty title={t("checkpoints.none")}>{t("checkpoints.noneHint")}</Empty>
                )
              ) : (
                <PagedTable
                  query={query}
                  rows={items}
                  rowKey={(c) => c.id}
                  label={t("nav.checkpoints")}
                  testId="all-checkpoints"
                  columns={columns}
                />
              )}
            </>
          );
        }}
      </QueryView>
    </>
  );
}
