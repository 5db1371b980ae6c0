import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import type { ComponentProps } from "react";

import { Confirm } from "./Confirm";

type Question = Omit<ComponentProps<typeof Confirm>, "opened" | "pending" | "error" | "onConfirm">;

/** A question that does what it asks about, closes, and reads again what may have changed; an error stays in it. */
export function ConfirmAction({
  run,
  changes,
  onDone,
  onClose,
  ...question
}: Question & {
  run: () => Promise<unknown>;
  /** The queries that are read again: those that begin with this key. All of them without it. */
  changes?: QueryKey;
  /** Called once it is done and closed, before anything is read again. */
  onDone?: () => unknown;
}) {
  const queryClient = useQueryClient();
  const action = useMutation({
    mutationFn: run,
    onSuccess: async () => {
      onClose();
      await onDone?.();
      await queryClient.invalidateQueries({ queryKey: changes });
    },
  });
  return (
    <Confirm
      opened
      {...question}
      onClose={onClose}
      pending={action.isPending}
      error={action.error}
      onConfirm={() => action.mutate()}
    />
  );
}
