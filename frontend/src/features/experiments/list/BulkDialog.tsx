import { Button, Group, Modal, Switch, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { DELETING } from "../../../api/liveHooks";
import { bulkPreview } from "../../../api/queries";
import { Notice, Skeleton } from "../../../components/basics";
import { Confirm } from "../../../components/dialogs/Confirm";
import { ErrorNotice } from "../../../components/QueryView";
import { type BulkAction, bulkBody, parseLabels, type Selection } from "./bulk";
import { BulkGroups } from "./BulkGroups";
import { Freed } from "../../../common/experiments/Freed";
import layout from "../../../components/layout.module.css";

/** In two steps: first exactly what it would touch, then what it did. What is done is what was shown:
 * the server refuses when the selection is another one by then. */
export function BulkDialog({
  action,
  selection,
  onClose,
  onDone,
}: {
  action: BulkAction;
  selection: Selection;
  onClose: () => void;
  onDone: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [keepFiles, setKeepFiles] = useState(false);
  const [setText, setSetText] = useState("");
  const [removeText, setRemoveText] = useState("");
  const [typed] = useDebouncedValue(`${setText}\n\n${removeText}`, 300);
  const [toSet, toRemove] = typed.split("\n\n");
  const setLabels = parseLabels(toSet ?? "");
  const removeLabels = Object.keys(parseLabels(toRemove ?? "") ?? {});
  const body = bulkBody(action, selection, { keepFiles, setLabels: setLabels ?? {}, removeLabels });
  const complete =
    action !== "label" ||
    (setLabels !== null && (Object.keys(body.set_labels).length > 0 || body.remove_labels.length > 0));
  const preview = useQuery({ ...bulkPreview(body), enabled: complete });
  const run = useMutation({
    mutationKey: action === "delete" ? DELETING : undefined,
    mutationFn: (digest: string) =>
      unwrap(
        client.POST("/api/v1/experiments:bulk", {
          params: { header: { "idempotency-key": digest } },
          body: { ...body, digest },
        }),
      ),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["experiments"] }),
  });
  const word = action === "label" ? t("bulk.action.label") : t(`operation.${action}`);
  const found = preview.data;
  if (run.data) {
    return (
      <BulkDone
        action={action}
        title={t("bulk.doneTitle", { action: word })}
        done={run.data}
        onClose={() => {
          onClose();
          onDone();
        }}
      />
    );
  }
  const danger = action === "stop" || action === "kill" || action === "delete";
  return (
    <Confirm
      opened
      onClose={onClose}
      title={t("bulk.title", {
        action: word,
        count: found?.num ?? (selection.kind === "ids" ? selection.ids.length : selection.num),
      })}
      action={found ? t("bulk.confirm", { action: word, count: found.num_changes }) : word}
      danger={danger}
      ready={found !== undefined && complete && found.num_changes > 0 && !preview.isFetching}
      typed={action === "delete" && found && found.num_changes > 0 ? String(found.num_changes) : undefined}
      pending={run.isPending}
      error={run.error}
      onConfirm={() => found && run.mutate(found.digest)}
    >
      <div data-testid="bulk-preview" className={layout["stack"]}>
        {action === "label" ? (
          <>
            <TextInput
              label={t("bulk.setLabels")}
              description={t("bulk.labelHint")}
              value={setText}
              onChange={(e) => setSetText(e.currentTarget.value)}
              placeholder="team=vision, urgent"
              error={setLabels === null ? t("bulk.labelWrong") : undefined}
              data-autofocus
            />
            <TextInput
              label={t("bulk.removeLabels")}
              value={removeText}
              onChange={(e) => setRemoveText(e.currentTarget.value)}
            />
          </>
        ) : (
          <p className={layout["text"]}>{t(`bulk.what.${action}`)}</p>
        )}
        {preview.error ? <ErrorNotice error={preview.error} onRetry={preview.refetch} /> : null}
        {complete && preview.isPending ? <Skeleton rows={3} /> : null}
        {found && complete ? <BulkGroups items={found.items} done={false} /> : null}
        {found?.freed && found.num_changes > 0 ? (
          <>
            <Freed freed={found.freed} keepFiles={keepFiles} />
            {found.freed.num_checkpoints > 0 ? (
              <Switch
                label={t("deletion.keepFiles")}
                checked={keepFiles}
                onChange={(e) => setKeepFiles(e.currentTarget.checked)}
              />
            ) : null}
          </>
        ) : null}
        {run.error ? (
          <Button
            variant="default"
            size="compact-sm"
            className={layout["start"]}
            onClick={() => void preview.refetch().then(() => run.reset())}
          >
            {t("bulk.again")}
          </Button>
        ) : null}
      </div>
    </Confirm>
  );
}

interface DoneProps {
  action: BulkAction;
  title: string;
  done: Schemas["BulkOut"];
  onClose: () => void;
}

/** What became of each experiment. */
function BulkDone({ action, title, done, onClose }: DoneProps) {
  const { t } = useTranslation();
  return (
    <Modal opened onClose={onClose} title={title} centered closeButtonProps={{ "aria-label": t("common.close") }}>
      <div data-testid="bulk-result">
        <Notice
          tone={done.num_refused > 0 ? "warn" : "ok"}
          title={t("bulk.result", {
            changed: done.num_changed,
            unchanged: done.num_unchanged,
            refused: done.num_refused,
          })}
        />
        <BulkGroups items={done.items} done />
        {action === "delete" ? <p className="dim">{t("bulk.filesLater")}</p> : null}
      </div>
      <Group justify="flex-end" mt="md">
        <Button onClick={onClose} data-autofocus data-testid="bulk-close">
          {t("common.close")}
        </Button>
      </Group>
    </Modal>
  );
}
