import { Button, Group, Modal, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { ErrorNotice } from "../QueryView";

/** Asks before something is stopped or removed, and says exactly what. */
export function Confirm({
  opened,
  title,
  children,
  action,
  dismiss,
  danger = true,
  ready = true,
  typed,
  pending,
  error,
  onConfirm,
  onClose,
}: {
  opened: boolean;
  title: string;
  children: ReactNode;
  action: string;
  /** The button that leaves everything as it is, where "Cancel" could mean the action itself. */
  dismiss?: string;
  /** False for what can be undone by another click. */
  danger?: boolean;
  /** False while it cannot be done, or is not known what it would do. */
  ready?: boolean;
  /** What has to be typed before something that cannot be undone. */
  typed?: string;
  pending: boolean;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={title}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      {children}
      {typed === undefined ? null : (
        <TextInput
          mt="sm"
          label={t("common.typeToConfirm", { text: typed })}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          autoComplete="off"
          data-testid="typed"
        />
      )}
      {error ? <ErrorNotice error={error} /> : null}
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose} data-autofocus>
          {dismiss ?? t("common.cancel")}
        </Button>
        <Button
          color={danger ? "red" : undefined}
          loading={pending}
          disabled={!ready || (typed !== undefined && text.trim() !== typed)}
          onClick={onConfirm}
          data-testid="confirm"
        >
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
