import { Button, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { ErrorNotice } from "./QueryView";

/** Asks before something is stopped or removed, and says exactly what. */
export function Confirm({
  opened,
  title,
  children,
  action,
  danger = true,
  pending,
  error,
  onConfirm,
  onClose,
}: {
  opened: boolean;
  title: string;
  children: ReactNode;
  action: string;
  /** False for what can be undone by another click. */
  danger?: boolean;
  pending: boolean;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  return (
    <Modal opened={opened} onClose={onClose} title={title} centered closeButtonProps={{ "aria-label": t("common.close") }}>
      {children}
      {error ? <ErrorNotice error={error} /> : null}
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t("common.cancel")}
        </Button>
        <Button color={danger ? "red" : undefined} loading={pending} onClick={onConfirm} data-testid="confirm">
          {action}
        </Button>
      </Group>
    </Modal>
  );
}
