import { Button } from "@mantine/core";
import { IconLock, IconMapPinOff, IconPlugConnectedX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { me } from "../api/queries";
import { Empty } from "./basics";
import layout from "./layout.module.css";
import { LinkButton } from "./LinkButton";

/** In place of what is not there, with the ways on. isPage: its words are the heading of the page. */
export function NotThere({ title, isPage, children }: { title: ReactNode; isPage: boolean; children?: ReactNode }) {
  const { t } = useTranslation();
  return (
    <Empty
      icon={IconMapPinOff}
      title={isPage ? <h1>{title}</h1> : title}
      testId="not-there"
      action={
        isPage ? (
          <div className={layout["buttons"]}>
            <LinkButton to="/" variant="default">
              {t("nav.overview")}
            </LinkButton>
            <LinkButton to="/experiments" variant="default">
              {t("nav.experiments")}
            </LinkButton>
          </div>
        ) : null
      }
    >
      {children}
    </Empty>
  );
}

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
