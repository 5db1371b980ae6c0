import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useMutationState, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { cluster, me, queue, type QueueItem, type QueueMove } from "../../api/queries";
import { Clamped, Empty, LoadMore, PageHead, Section } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { FilterBar, SetFilter } from "../../components/tables/FilterBar";
import { SubmitLink } from "../../components/SubmitLink";
import { PriorityDialog } from "../../components/dialogs/PriorityDialog";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { StateBadge } from "../../components/StateBadge";
import { useColumnChoice } from "../../components/tables/TableOptions";
import { Ago, Until } from "../../components/Time";
import tableCss from "../../components/tables/dataTable.module.css";
import { Reason } from "../../components/text/Message";
import { mayChange } from "../../lib/access";
import css from "./cluster.module.css";
import { QueueMoves } from "./QueueMoves";
import { lanesOf, moved as movedTo, placesOf } from "./queueOrder";

export function Queue() {
  const { t } = useTranslation();
  const { project } = useSearch({ from: "/app/queue" });
  const navigate = useNavigate({ from: "/queue" });
  const query = useInfiniteQuery(queue(project));
  const state = useQuery(cluster).data;
  useLiveQueries("cluster", ["queue"], ["cluster"]);
  useLiveQueries("experiments", ["queue"]);
  const free = state ? t("queue.free", { free: state.num_slots_free, all: state.num_slots }) : null;
  const only = (name: string | undefined): void => void navigate({ search: { project: name }, replace: true });
  return (
    <>
      <PageHead guide="concepts/scheduling" title={t("nav.queue")} sub={free} />
      <QueryView query={query}>
        {(data) => {
          const items = data.pages.flatMap((page) => page.items);
          if (items.length === 0) {
            return project ? (
              <>
                <ProjectFilter project={project} onProject={only} />
                <Empty
                  title={t("queue.noMatch", { project })}
                  action={
                    <Button variant="default" onClick={() => only(undefined)}>
                      {t("common.clearFilters")}
                    </Button>
                  }
                />
              </>
            ) : (
              <Empty title={t("queue.empty")} action={<SubmitLink />}>
                {free}
              </Empty>
            );
          }
          return (
            <>
              <Lanes items={items} project={project} onProject={only} />
              <LoadMore query={query} shown={items.length} />
            </>
          );
        }}
      </QueryView>
    </>
  );
}

const MOVING = ["queue", "move"];

type OnMove = (item: QueueItem, wish: QueueMove, button: string) => void;

/** The queue with the moves that are under way, and the way to one more. */
function useMoves(known: QueueItem[]) {
  const queryClient = useQueryClient();
  const focus = useRef<string | null>(null);
  const move = useMutation({
    mutationKey: MOVING,
    // One after the other, each until the queue was read again: a key pressed meanwhile is never lost.
    scope: { id: "queue-move" },
    mutationFn: ({ wish }: { item: QueueItem; wish: QueueMove }) =>
      unwrap(client.POST("/api/v1/queue:move", { body: wish })),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["queue"] }),
  });
  // Moves under way are shown as if granted; refused, the queue is as the server has it.
  const wishes = useMutationState({
    filters: { mutationKey: MOVING, status: "pending" },
    select: (mutation) => (mutation.state.variables as { wish: QueueMove }).wish,
  });
  const items = wishes.reduce(movedTo, known as readonly QueueItem[]);
  const order = items.map((item) => item.trial_id).join();
  // Where a row went, its button goes with the keyboard's focus, unless that went elsewhere since.
  useEffect(() => {
    if (focus.current === null) return;
    const button = document.querySelector<HTMLElement>(`[data-move="${focus.current}"]`);
    if (document.activeElement === document.body) button?.focus();
    else if (document.activeElement !== button) focus.current = null;
  }, [order]);
  const onMove: OnMove = (item, wish, button) => {
    focus.current = button;
    move.mutate({ item, wish });
  };
  return { items, move, onMove };
}

interface On {
  onProject: (project: string) => void;
  onMove: OnMove;
  onPriority: (item: QueueItem) => void;
}

function useColumns(places: ReturnType<typeof placesOf>, { onProject, onMove, onPriority }: On): Column<QueueItem>[] {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  return [
    numeric("position", "#", (item) => item.position ?? "–", { width: 40 }),
    lead("name", t("queue.trial"), (item) => (
      <>
        <Link to="/trials/$trialId" params={{ trialId: String(item.trial_id) }}>
          <Clamped text={`${item.experiment_name} · ${t("trial.no", { no: item.trial_no })}`} />
        </Link>
        {item.state === "QUEUED" ? null : <StateBadge state={item.state} plain />}
      </>
    )),
    {
      id: "reason",
      header: t("queue.reason"),
      width: 560,
      cell: (item) => (
        <span data-testid="pending-reason" className={item.is_impossible ? css["impossible"] : undefined}>
          {item.is_impossible ? <b>{t("trial.impossible")}: </b> : null}
          {item.pending_reason ? <Reason text={item.pending_reason} parts={item.pending_parts} /> : t("queue.noReason")}
        </span>
      ),
    },
    numeric("starts", t("queue.starts"), (item) =>
      item.estimated_start_at ? (
        <Until at={item.estimated_start_at} />
      ) : (
        <span className="dim" title={t("queue.noEstimateHint")}>
          {t("queue.noEstimate")}
        </span>
      ),
    ),
    // The reason says it, too, and why there are none: it needs the room.
    column(
      "slots",
      t("queue.asks"),
      (item) => (
        <span className={tableCss["tight"]}>
          {t(item.min_slots < item.num_slots ? "queue.elastic" : "queue.slots", {
            min: item.min_slots,
            count: item.num_slots,
            type: item.slot_type,
            pool: item.pool,
          })}
        </span>
      ),
      { extra: true },
    ),
    numeric("priority", t("queue.priority"), (item) =>
      mayChange(user, item.owner) ? (
        <Button
          variant="default"
          size="compact-xs"
          onClick={() => onPriority(item)}
          aria-label={t("priority.change", { value: item.priority, name: item.experiment_name })}
          data-testid="priority"
        >
          {item.priority}
        </Button>
      ) : (
        item.priority
      ),
    ),
    {
      id: "project",
      header: t("experiments.project"),
      phone: false,
      cell: (item) => (
        <button
          type="button"
          className={tableCss["sort"]}
          onClick={() => onProject(item.project)}
          title={t("experiments.onlyProject", { project: item.project })}
          data-testid="project"
        >
          {item.project}
        </button>
      ),
    },
    column("owner", t("queue.owner"), (item) => item.owner ?? "–", { phone: false }),
    numeric("since", t("queue.waiting"), (item) => <Ago at={item.waiting_since} short />),
    numeric("move", t("queue.order"), (item) => {
      const at = places.get(item.trial_id);
      return at && mayChange(user, item.owner) ? <QueueMoves item={item} places={at} onMove={onMove} /> : null;
    }),
  ];
}

function ProjectFilter({
  project,
  onProject,
}: {
  project: string | undefined;
  onProject: (project: string | undefined) => void;
}) {
  const { t } = useTranslation();
  if (!project) return null;
  return (
    <SetFilter
      text={`${t("experiments.project")}: ${project}`}
      onRemove={() => onProject(undefined)}
      testId="project-filter"
    />
  );
}

/** One table per pool and slot type: positions are counted within each. */
function Lanes({
  items: known,
  project,
  onProject,
}: {
  items: QueueItem[];
  project: string | undefined;
  onProject: (project: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const [prioritised, setPrioritised] = useState<QueueItem | null>(null);
  const { items, move, onMove } = useMoves(known);
  const places = placesOf(items);
  const lanes = lanesOf(items);
  const { columns, picker } = useColumnChoice(
    "queue",
    useColumns(places, { onProject, onMove, onPriority: setPrioritised }),
  );
  const moved = move.data?.first;
  return (
    <>
      <FilterBar numActive={project ? 1 : 0}>
        <ProjectFilter project={project} onProject={onProject} />
        <div data-end>{picker}</div>
      </FilterBar>
      {move.error ? <ErrorNotice error={move.error} /> : null}
      <div className="srOnly" role="status" data-testid="moved">
        {move.isSuccess && moved
          ? t("queue.moved", { name: moved.experiment_name, no: moved.trial_no, position: moved.position ?? "–" })
          : ""}
      </div>
      {lanes.map((lane) => (
        <Section
          key={`${lane.pool}/${lane.slotType}`}
          title={lanes.length > 1 ? t("queue.lane", { pool: lane.pool, type: lane.slotType }) : undefined}
        >
          <DataTable
            rows={lane.items}
            rowKey={(item) => item.trial_id}
            label={t("queue.lane", { pool: lane.pool, type: lane.slotType })}
            testId="queue"
            columns={columns}
          />
        </Section>
      ))}
      {prioritised ? (
        <PriorityDialog
          experiment={{
            id: prioritised.experiment_id,
            name: prioritised.experiment_name,
            priority: prioritised.priority,
          }}
          onClose={() => setPrioritised(null)}
        />
      ) : null}
    </>
  );
}
