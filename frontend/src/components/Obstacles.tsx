import { Button } from "@mantine/core";
import { IconLock, IconPlugConnectedX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../api/queries";
import { Empty } from "./basics";

/** In place of what the caller's role does not show. */
export function Forbidden({ children }: { children?: ReactNode }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  return (
    <Empty icon={IconLock} title={t("error.forbidden")} isAlert testId="forbidden">
      {user ? t("error.forbiddenHint", { name: user.username, role: t(`role.${user.role}`) }) : null}
      {children ? <div>{children}</div> : null}
    </Empty>
  );
}

/** In place of what was never loaded, while the server does not answer; it appears by itself afterwards. */
export function Unreachable({ onRetry }: { onRetry: () => unknown }) {
  const { t } = useTranslation();
  return (
    <Empty
      icon={IconPlugConnectedX}
      title={t("error.unreachable")}
      isAlert
      testId="unreachable"
      action={
        <Button variant="default" onClick={() => void onRetry()}>
          {t("common.retry")}
        </Button>
      }
    >
      {t("error.unreachableHint")}
    </Empty>
  );
}
