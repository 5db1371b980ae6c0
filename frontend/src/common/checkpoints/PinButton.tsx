import { ActionIcon, Badge, Tooltip } from "@mantine/core";
import { IconPin, IconPinnedOff } from "@tabler/icons-react";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { errorLine } from "../../components/text/Message";
import layout from "../../components/layout.module.css";

interface Checkpoint {
  id: number;
  step: number;
  state: string;
  pinned_at: string | null;
  pinned_by: string;
}

export function Pinned({ checkpoint }: { checkpoint: Checkpoint }) {
  const { t } = useTranslation();
  if (checkpoint.pinned_at === null) return null;
  return (
    <Badge
      size="xs"
      variant="light"
      color="yellow"
      title={t("checkpoints.pinnedBy", { who: checkpoint.pinned_by })}
      data-testid="pinned"
    >
      {t("checkpoints.pinned")}
    </Badge>
  );
}

/** Whether policies may delete a checkpoint, and the way to change that. */
export function usePin(checkpoint: Checkpoint) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const isPinned = checkpoint.pinned_at !== null;
  const path = isPinned ? "/api/v1/checkpoints/{checkpoint_id}:unpin" : "/api/v1/checkpoints/{checkpoint_id}:pin";
  const change = useMutation({
    mutationFn: () => unwrap(client.POST(path, { params: { path: { checkpoint_id: checkpoint.id } } })),
    onSettled: () =>
      Promise.all([
        queryClient.invalidateQueries({ queryKey: ["checkpoints"] }),
        queryClient.invalidateQueries({ queryKey: ["trial"] }),
      ]),
  });
  const label = t(isPinned ? "checkpoints.unpin" : "checkpoints.pin", { step: checkpoint.step });
  return { isPinned, change, label };
}

/** Whether policies may delete it: said and changed by one button. */
export function PinButton({ checkpoint }: { checkpoint: Checkpoint }) {
  const { t } = useTranslation();
  const { isPinned, change, label } = usePin(checkpoint);
  const problem = change.error ? errorLine(change.error) : "";
  return (
    <>
      <Tooltip label={t(isPinned ? "checkpoints.unpinHint" : "checkpoints.pinHint")} multiline maw={320}>
        <ActionIcon
          size="sm"
          variant="subtle"
          color={isPinned ? "yellow" : "gray"}
          loading={change.isPending}
          onClick={() => change.mutate()}
          aria-label={label}
          aria-pressed={isPinned}
          data-testid="pin"
        >
          {isPinned ? <IconPinnedOff size={14} aria-hidden /> : <IconPin size={14} aria-hidden />}
        </ActionIcon>
      </Tooltip>
      {problem ? (
        <span role="alert" className={`dim ${layout["remark"]}`}>
          {problem}
        </span>
      ) : null}
    </>
  );
}
