import { useBlocker } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { Confirm } from "./Confirm";

/** Stops whatever would leave the page, and asks; a browser asks in words of its own when its tab is closed. */
export default function LeaveDialog() {
  const { t } = useTranslation();
  const leaving = useBlocker({ shouldBlockFn: () => true, withResolver: true });
  return (
    <Confirm
      opened={leaving.status === "blocked"}
      title={t("common.leaveTitle")}
      action={t("common.discard")}
      dismiss={t("common.goOnEditing")}
      pending={false}
      error={null}
      onConfirm={() => leaving.proceed?.()}
      onClose={() => leaving.reset?.()}
    >
      {t("common.leaveText")}
    </Confirm>
  );
}
