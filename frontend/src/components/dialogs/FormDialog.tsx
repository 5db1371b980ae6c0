import { Button, Group, Modal, type ModalProps } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { ErrorNotice } from "../QueryView";
import layout from "../layout.module.css";

/** A form in a dialog: its fields, what went wrong, and the buttons that leave it. */
export function FormDialog({
  title,
  action,
  ready = true,
  pending,
  error,
  size,
  testId,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  /** Label of the button that submits; "Save" by default. */
  action?: string;
  /** False while the form cannot be submitted. */
  ready?: boolean;
  pending: boolean;
  error: Error | null;
  size?: ModalProps["size"];
  testId: string;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  const { t } = useTranslation();
  return (
    <Modal
      opened
      onClose={onClose}
      title={title}
      centered
      size={size}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form
        className={layout["stack"]}
        data-testid={testId}
        onSubmit={(event) => {
          event.preventDefault();
          if (ready) onSubmit();
        }}
      >
        {children}
        {error ? <ErrorNotice error={error} /> : null}
        <Group justify="flex-end" mt="xs">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button type="submit" loading={pending} disabled={!ready}>
            {action ?? t("common.save")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
