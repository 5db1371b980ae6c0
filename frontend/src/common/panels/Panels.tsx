import { Button, CopyButton, Menu } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { me, type Panel, panels } from "../../api/queries";
import chartCss from "../../charts/chart.module.css";
import { type Command, FullScreen } from "../../charts/series/SeriesChart";
import { readRanges, withRange } from "../../charts/series/yRanges";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { ErrorNotice } from "../../components/QueryView";
import * as format from "../../lib/format";
import { ExportPage, type PageContent } from "./ExportPage";
import { PanelDialog, type Scope } from "./PanelDialog";
import { type Around, PanelView } from "./PanelView";
import css from "./panels.module.css";

interface Props {
  scope: Scope;
  around: Around;
  onCommand: (command: Command) => void;
  /** Only those of the project: the page shows runs of several experiments. */
  isShared?: boolean;
  /** What the file of the page has besides. */
  content: PageContent;
}

/** In the address: the panel that fills the screen. */
const fullOf = (panel: Panel): string => `panel:${panel.id}`;

/** The address of this page with a panel in full, for somebody else. */
function linkTo(panel: Panel): string {
  const url = new URL(window.location.href);
  url.searchParams.set("full", fullOf(panel));
  return url.href;
}

/** The panels that people added to these charts, and how to add one. */
export function Panels({ scope, around, onCommand, isShared = false, content }: Props) {
  const { t } = useTranslation();
  const query = useQuery(panels({ experiment: scope.experiment }));
  const mayAdd = useQuery(me).data?.role !== "viewer";
  const [edited, setEdited] = useState<Panel | "new" | null>(null);
  const [doomed, setDoomed] = useState<Panel | null>(null);
  const all = (query.data ?? []).filter(
    (panel) => panel.kind !== "mark" && (!isShared || panel.experiment_id === null),
  );
  const { search, set } = around;
  const ranges = readRanges(search.yr);
  const view = (panel: Panel, fullHeight: number | null) => (
    <PanelView
      key={panel.id}
      panel={panel}
      around={around}
      fullHeight={fullHeight}
      yRange={ranges.get(fullOf(panel)) ?? null}
      onYRange={(range) => set({ yr: withRange(search.yr, fullOf(panel), range) })}
      onCommand={(what) =>
        what === "full" ? set({ full: search.full === fullOf(panel) ? undefined : fullOf(panel) }) : onCommand(what)
      }
      menu={
        <PanelMenu
          panel={panel}
          siblings={all.filter((one) => one.experiment_id === panel.experiment_id)}
          onFull={fullHeight === null ? () => set({ full: fullOf(panel) }) : null}
          onEdit={() => setEdited(panel)}
          onDelete={() => setDoomed(panel)}
        />
      }
    />
  );
  const full = all.find((panel) => fullOf(panel) === search.full);
  const marks = around.marks ?? [];
  const isBare = all.length === 0 && marks.length === 0 && !query.error;
  return (
    <section className={isBare ? css["bare"] : chartCss["group"]} data-testid="panels">
      <div className={css["bar"]}>
        {all.length > 0 ? <h2>{t("panels.heading")}</h2> : null}
        {mayAdd ? (
          <Button
            variant="default"
            size="compact-xs"
            leftSection={<IconPlus size={13} aria-hidden />}
            onClick={() => setEdited("new")}
            data-testid="add-panel"
          >
            {t("panels.add")}
          </Button>
        ) : null}
        <ExportPage around={around} panels={all} {...content} />
      </div>
      <Marks marks={marks} onEdit={setEdited} onDelete={setDoomed} />
      {query.error ? <ErrorNotice error={query.error} onRetry={query.refetch} /> : null}
      <div className={chartCss["grid"]}>{all.map((panel) => view(panel, null))}</div>
      {full ? (
        <FullScreen title={full.title} onClose={() => set({ full: undefined })}>
          {(height) => view(full, height)}
        </FullScreen>
      ) : null}
      {edited === null ? null : (
        <PanelDialog
          panel={edited === "new" ? null : edited}
          scope={scope}
          names={around.names}
          onClose={() => setEdited(null)}
        />
      )}
      {doomed ? <DeletePanel panel={doomed} onClose={() => setDoomed(null)} /> : null}
    </section>
  );
}

/** Marks in the order of their steps, in full and for who cannot see the charts. */
function Marks({
  marks,
  onEdit,
  onDelete,
}: {
  marks: readonly Panel[];
  onEdit: (mark: Panel) => void;
  onDelete: (mark: Panel) => void;
}) {
  const { t } = useTranslation();
  if (marks.length === 0) return null;
  return (
    <ul className={css["marks"]} aria-label={t("panels.marks")} data-testid="marks">
      {marks.map((mark) => (
        <li key={mark.id}>
          <span className="dim">{t("chart.atStep", { step: format.count(Number(mark.x)) })}</span> {mark.title}
          {mark.may_change ? (
            <>
              <Button
                variant="subtle"
                size="compact-xs"
                aria-label={`${t("panels.editMark")}: ${mark.title}`}
                onClick={() => onEdit(mark)}
              >
                {t("panels.editMark")}
              </Button>
              <Button
                variant="subtle"
                size="compact-xs"
                color="red"
                aria-label={`${t("panels.deleteMark")}: ${mark.title}`}
                onClick={() => onDelete(mark)}
              >
                {t("panels.deleteMark")}
              </Button>
            </>
          ) : null}
        </li>
      ))}
    </ul>
  );
}

interface MenuProps {
  panel: Panel;
  /** Panels of the same experiment or project, in their order. */
  siblings: readonly Panel[];
  /** Null: it is in full already. */
  onFull: (() => void) | null;
  onEdit: () => void;
  onDelete: () => void;
}

function DeletePanel({ panel, onClose }: { panel: Panel; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      title={t("panels.deleteTitle", { title: panel.title })}
      action={t("panels.delete")}
      run={() => unwrap(client.DELETE("/api/v1/panels/{panel_id}", { params: { path: { panel_id: panel.id } } }))}
      changes={["panels"]}
      onClose={onClose}
    >
      {panel.experiment_id === null ? t("panels.deleteShared", { project: panel.project }) : t("panels.deleteOwn")}
    </ConfirmAction>
  );
}

function PanelMenu({ panel, siblings, onFull, onEdit, onDelete }: MenuProps) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const path = { panel_id: panel.id };
  const change = useMutation({
    mutationFn: (body: Schemas["PanelPatch"]) =>
      unwrap(client.PATCH("/api/v1/panels/{panel_id}", { params: { path }, body })),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["panels"] }),
  });
  const at = siblings.findIndex((one) => one.id === panel.id);
  return (
    <>
      {onFull ? <Menu.Item onClick={onFull}>{t("chart.full")}</Menu.Item> : null}
      <CopyButton value={linkTo(panel)}>
        {({ copied, copy }) => (
          <Menu.Item onClick={copy} closeMenuOnClick={false}>
            {t(copied ? "common.copied" : "panels.link")}
          </Menu.Item>
        )}
      </CopyButton>
      {panel.may_change ? (
        <>
          <Menu.Item onClick={onEdit} data-testid="edit-panel">
            {t("panels.edit")}
          </Menu.Item>
          <Menu.Item disabled={at <= 0} onClick={() => change.mutate({ position: at - 1 })}>
            {t("chart.earlier")}
          </Menu.Item>
          <Menu.Item disabled={at >= siblings.length - 1} onClick={() => change.mutate({ position: at + 1 })}>
            {t("chart.later")}
          </Menu.Item>
          <Menu.Item color="red" onClick={onDelete} data-testid="delete-panel">
            {t("panels.delete")}
          </Menu.Item>
        </>
      ) : null}
    </>
  );
}
