import { ActionIcon, Button, Checkbox, Group, Modal, Popover, Select, TextInput } from "@mantine/core";
import {
  IconBookmark,
  IconChevronDown,
  IconDeviceFloppy,
  IconStar,
  IconStarFilled,
  IconTrash,
} from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { me, projects, savedViews, type SavedView } from "../../../api/queries";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { ErrorNotice } from "../../../components/QueryView";
import css from "./table.module.css";
import layout from "../../../components/layout.module.css";

/** The page's address under a name: own views, and those that are shared with a project. */
export function Views({ query, onOpen }: { query: string; onOpen: (query: string) => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const user = useQuery(me).data;
  const views = (useQuery(savedViews).data ?? []).filter((view) => view.page === "experiments");
  const [opened, setOpened] = useState(false);
  const [saving, setSaving] = useState(false);
  const done = (): Promise<void> => queryClient.invalidateQueries({ queryKey: ["views"] });
  const change = useMutation({
    mutationFn: ({ id, body }: { id: number; body: Schemas["SavedViewPatch"] }) =>
      unwrap(client.PATCH("/api/v1/views/{view_id}", { params: { path: { view_id: id } }, body })),
    onSuccess: done,
  });
  const [doomed, setDoomed] = useState<SavedView | null>(null);
  const go = (wanted: string): void => {
    setOpened(false);
    onOpen(wanted);
  };
  const canChange = (view: SavedView): boolean => view.is_mine || user?.role === "admin";
  const item = (view: SavedView) => (
    <ViewItem
      key={view.id}
      view={view}
      isShown={view.query === query}
      onOpen={() => go(view.query)}
      onDefault={view.is_mine ? () => change.mutate({ id: view.id, body: { is_default: !view.is_default } }) : null}
      onUpdate={canChange(view) ? () => change.mutate({ id: view.id, body: { query } }) : null}
      onDelete={() => {
        setOpened(false);
        setDoomed(view);
      }}
    />
  );
  const mine = views.filter((view) => view.is_mine && !view.project);
  const shared = views.filter((view) => view.project);
  const current = views.find((view) => view.query === query);
  return (
    <>
      <Popover opened={opened} onChange={setOpened} position="bottom-end" shadow="md" withinPortal={false} trapFocus>
        <Popover.Target>
          <Button
            variant="default"
            leftSection={<IconBookmark size={14} aria-hidden />}
            rightSection={<IconChevronDown size={14} aria-hidden />}
            onClick={() => setOpened(!opened)}
            data-testid="views"
          >
            {current?.name ?? t("table.views.title")}
          </Button>
        </Popover.Target>
        <Popover.Dropdown>
          <div className={css["picker"]} data-testid="views-list">
            <ul className={css["list"]}>
              <li>
                <button type="button" data-add onClick={() => go("")} data-autofocus>
                  <span>{t("table.views.all")}</span>
                </button>
              </li>
            </ul>
            {mine.length > 0 ? <span className={css["pickerHead"]}>{t("table.views.mine")}</span> : null}
            {mine.length > 0 ? <ul className={css["list"]}>{mine.map(item)}</ul> : null}
            {shared.length > 0 ? <span className={css["pickerHead"]}>{t("table.views.shared")}</span> : null}
            {shared.length > 0 ? <ul className={css["list"]}>{shared.map(item)}</ul> : null}
            {views.length === 0 ? <span className="dim">{t("table.views.none")}</span> : null}
            {change.error ? <ErrorNotice error={change.error} /> : null}
            <Button
              variant="default"
              onClick={() => {
                setOpened(false);
                setSaving(true);
              }}
              data-testid="save-view"
            >
              {t("table.views.save")}
            </Button>
          </div>
        </Popover.Dropdown>
      </Popover>
      {saving ? (
        <SaveView
          query={query}
          canShare={user !== undefined && user.role !== "viewer"}
          onClose={() => setSaving(false)}
          onDone={done}
        />
      ) : null}
      {doomed ? <DeleteView view={doomed} onClose={() => setDoomed(null)} /> : null}
    </>
  );
}

function DeleteView({ view, onClose }: { view: SavedView; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <ConfirmAction
      title={t("table.views.deleteTitle", { name: view.name })}
      action={t("table.views.deleteButton")}
      run={() => unwrap(client.DELETE("/api/v1/views/{view_id}", { params: { path: { view_id: view.id } } }))}
      changes={savedViews.queryKey}
      onClose={onClose}
    >
      {view.project ? t("table.views.deleteShared", { project: view.project }) : t("table.views.deleteOwn")}
    </ConfirmAction>
  );
}

interface ItemProps {
  view: SavedView;
  isShown: boolean;
  onOpen: () => void;
  /** Null: it is somebody else's. */
  onDefault: (() => void) | null;
  /** Null: it must not be changed or deleted. */
  onUpdate: (() => void) | null;
  onDelete: () => void;
}

function ViewItem({ view, isShown, onOpen, onDefault, onUpdate, onDelete }: ItemProps) {
  const { t } = useTranslation();
  return (
    <li>
      <button type="button" data-add aria-current={isShown || undefined} onClick={onOpen} data-testid="view">
        <span>{isShown ? <b>{view.name}</b> : view.name}</span>
        <span className="dim">
          {[
            view.is_mine ? "" : t("table.views.by", { owner: view.owner }),
            view.project ?? "",
            view.is_mine && view.is_default ? t("table.views.opens") : "",
          ]
            .filter((part) => part !== "")
            .join(" · ")}
        </span>
      </button>
      {onDefault ? (
        <ActionIcon
          size="sm"
          variant="subtle"
          color="gray"
          aria-pressed={view.is_default}
          aria-label={`${view.name}: ${t(view.is_default ? "table.views.unsetDefault" : "table.views.setDefault")}`}
          title={t(view.is_default ? "table.views.unsetDefault" : "table.views.setDefault")}
          onClick={onDefault}
        >
          {view.is_default ? <IconStarFilled size={14} /> : <IconStar size={14} />}
        </ActionIcon>
      ) : null}
      {onUpdate ? (
        <>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            disabled={isShown}
            aria-label={t("table.views.update", { name: view.name })}
            title={t("table.views.update", { name: view.name })}
            onClick={onUpdate}
          >
            <IconDeviceFloppy size={14} />
          </ActionIcon>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="red"
            aria-label={t("table.views.delete", { name: view.name })}
            title={t("table.views.delete", { name: view.name })}
            onClick={onDelete}
            data-testid="delete-view"
          >
            <IconTrash size={14} />
          </ActionIcon>
        </>
      ) : null}
    </li>
  );
}

function SaveView({
  query,
  canShare,
  onClose,
  onDone,
}: {
  query: string;
  canShare: boolean;
  onClose: () => void;
  onDone: () => Promise<void>;
}) {
  const { t } = useTranslation();
  const [name, setName] = useState("");
  const [project, setProject] = useState<string | null>(null);
  const [isDefault, setDefault] = useState(false);
  const list = useInfiniteQuery({ ...projects, enabled: canShare }).data?.pages.flatMap((page) => page.items) ?? [];
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/views", {
          body: { page: "experiments", name: name.trim(), query, project, is_default: isDefault },
        }),
      ),
    onSuccess: async () => {
      await onDone();
      onClose();
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (name.trim() !== "") save.mutate();
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("table.views.save")}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={submit} className={layout["stack"]} data-testid="view-form">
        <TextInput
          label={t("table.views.name")}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          maxLength={200}
          data-autofocus
        />
        {canShare ? (
          <Select
            label={t("table.views.project")}
            placeholder={t("table.views.alone")}
            data={list.map((one) => one.name)}
            value={project}
            onChange={setProject}
            clearable
            comboboxProps={{ withinPortal: false }}
          />
        ) : null}
        <Checkbox
          label={t("table.views.isDefault")}
          checked={isDefault}
          onChange={(event) => setDefault(event.currentTarget.checked)}
        />
        {save.error ? <ErrorNotice error={save.error} /> : null}
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button type="submit" loading={save.isPending} disabled={name.trim() === ""}>
            {t("common.save")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
