import { ActionIcon, Badge, Button, Menu, SegmentedControl } from "@mantine/core";
import { IconBox, IconDots, IconGitFork, IconPin, IconPinnedOff } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useIsThere } from "../../api/parts";
import { checkpointList, type CheckpointListItem as Item, type CheckpointState, me } from "../../api/queries";
import type { CheckpointSearch } from "../../app/search";
import { Empty } from "../../components/basics";
import { actions, type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { FilterBar, FilterMenu } from "../../components/tables/FilterBar";
import { errorLine } from "../../components/text/Message";
import { PagedTable } from "../../components/tables/PagedTable";
import { QueryView } from "../../components/QueryView";
import { useColumnChoice } from "../../components/tables/TableOptions";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { CleaningDialog } from "../../common/checkpoints/CleaningDialog";
import { FromScript } from "../../common/checkpoints/FromScript";
import { Pinned, usePin } from "../../common/checkpoints/PinButton";
import { RegisterDialog } from "../../common/models/RegisterDialog";
import css from "./list/table.module.css";
import layout from "../../components/layout.module.css";

const STATES: CheckpointState[] = ["complete", "local", "deleting", "deleted"];

interface Props extends CheckpointSearch {
  /** Null: of all experiments. */
  experimentId: number | null;
  project?: string;
  set: (change: CheckpointSearch) => void;
}

/** isOfAll: of all experiments, each of which is named then. */
function useColumns(isOfAll: boolean, mayChange: boolean): Column<Item>[] {
  const { t } = useTranslation();
  const experiment: Column<Item> = lead("experiment", t("checkpointList.experiment"), (c) => (
    <Link
      to="/experiments/$experimentId"
      params={{ experimentId: String(c.experiment_id) }}
      search={{ tab: "checkpoints" }}
      className={css["name"]}
      title={c.experiment_name}
    >
      {c.experiment_name}
    </Link>
  ));
  return [
    ...(isOfAll ? [experiment] : []),
    {
      id: "trial",
      header: t("cleaning.trial"),
      lead: !isOfAll,
      cell: (c) => (
        <Link
          to="/trials/$trialId"
          params={{ trialId: String(c.trial_id) }}
          search={{ tab: "checkpoints" }}
          className={layout["nowrap"]}
        >
          {t("nav.trialNo", { no: c.trial_no })}
        </Link>
      ),
    },
    numeric("step", t("checkpoints.step"), (c) => format.count(c.step)),
    column("marks", t("checkpointList.marks"), (c) => <Marks checkpoint={c} />, { quiet: true }),
    numeric("metric", t("checkpointList.metric"), (c) =>
      c.metric_name && c.metric !== null ? (
        <span>
          <span className="dim">{c.metric_name}</span> {format.metric(c.metric_name, c.metric)}
        </span>
      ) : (
        format.MISSING
      ),
    ),
    numeric("size", t("checkpoints.size"), (c) => format.bytes(c.size_bytes)),
    numeric("files", t("checkpoints.files"), (c) => format.count(c.num_files), { extra: true }),
    column("state", t("checkpoints.state"), (c) => t(`checkpointList.${c.state as CheckpointState}`)),
    {
      id: "node",
      phone: false,
      header: t("ranks.node"),
      cell: (c) => (
        <span className={css["name"]} title={c.node_name}>
          {c.node_name}
        </span>
      ),
    },
    {
      id: "path",
      phone: false,
      extra: true,
      header: t("checkpoints.path"),
      cell: (c) => (
        <span className={`mono ${css["name"]}`} title={c.path}>
          {c.path}
        </span>
      ),
    },
    { id: "project", phone: false, extra: true, header: t("experiments.project"), cell: (c) => c.project },
    numeric("at", t("checkpoints.saved"), (c) => <Ago at={c.created_at} />),
    actions("actions", t("common.rowActions"), (c) =>
      mayChange && c.state === "complete" ? <Actions checkpoint={c} /> : null,
    ),
  ];
}

/** What sets it apart: the latest of its trial, pinned, saved by the script itself. */
function Marks({ checkpoint }: { checkpoint: Item }) {
  const { t } = useTranslation();
  return (
    <span className={`${layout["inline"]} ${layout["tight"]}`}>
      {checkpoint.is_latest ? (
        <Badge size="xs" variant="light">
          {t("checkpoints.latest")}
        </Badge>
      ) : null}
      <Pinned checkpoint={checkpoint} />
      <FromScript checkpoint={checkpoint} />
    </span>
  );
}

/** What can be done with one checkpoint. */
function Actions({ checkpoint }: { checkpoint: Item }) {
  const { t } = useTranslation();
  const { isPinned, change, label } = usePin(checkpoint);
  const isThere = useIsThere();
  const [isRegistering, setIsRegistering] = useState(false);
  const menu = t("checkpointList.actions", { step: checkpoint.step });
  return (
    <>
      {change.error ? (
        <span role="alert" className={`dim ${layout["remark"]}`}>
          {errorLine(change.error)}
        </span>
      ) : null}
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label={menu} loading={change.isPending}>
            <IconDots size={15} aria-hidden />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<IconGitFork size={14} aria-hidden />}
            renderRoot={(props) => (
              <Link {...props} to="/submit" search={{ from: checkpoint.experiment_id, start: String(checkpoint.id) }} />
            )}
            data-testid="fork-here"
          >
            {t("fork.here")}
          </Menu.Item>
          <Menu.Item
            leftSection={isPinned ? <IconPinnedOff size={14} aria-hidden /> : <IconPin size={14} aria-hidden />}
            title={t(isPinned ? "checkpoints.unpinHint" : "checkpoints.pinHint")}
            onClick={() => change.mutate()}
            data-testid="pin"
          >
            {label}
          </Menu.Item>
          {isThere("models") ? (
            <Menu.Item
              leftSection={<IconBox size={14} aria-hidden />}
              onClick={() => setIsRegistering(true)}
              data-testid="register"
            >
              {t("models.register")}
            </Menu.Item>
          ) : null}
        </Menu.Dropdown>
      </Menu>
      {isRegistering ? (
        <RegisterDialog
          source={{ checkpointId: checkpoint.id, step: checkpoint.step }}
          onClose={() => setIsRegistering(false)}
        />
      ) : null}
    </>
  );
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
  const all = useColumns(experimentId === null, mayChange);
  const { columns, picker } = useColumnChoice("checkpoints", all);
  return (
    <>
      <FilterBar
        numActive={saved ? 1 : 0}
        find={
          <SegmentedControl
            size="xs"
            aria-label={t("checkpointList.order")}
            value={order ?? "newest"}
            onChange={(value) => set({ order: value === "largest" ? "largest" : undefined })}
            data={[
              { value: "newest", label: t("checkpointList.newest") },
              { value: "largest", label: t("checkpointList.largest") },
            ]}
          />
        }
      >
        <FilterMenu
          label={t("checkpoints.state")}
          options={STATES.map((name) => ({
            value: name,
            label: t(`checkpointList.${name}`),
            text: t(`checkpointList.${name}`),
          }))}
          chosen={saved ? [saved] : []}
          onChange={(next) => set({ saved: next.at(-1) })}
          testId="checkpoint-state"
        />
        <div data-end>
          {experimentId !== null ? (
            <Button variant="default" size="xs" onClick={() => setCleaning(experimentId)} data-testid="cleaning-open">
              {t("cleaning.open")}
            </Button>
          ) : null}
          {picker}
        </div>
      </FilterBar>
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
