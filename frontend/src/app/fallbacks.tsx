import { type ErrorComponentProps, useLocation, useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";

import { client } from "../api/client";
import { useLiveStatus } from "../api/liveHooks";
import { Skeleton } from "../components/basics";
import { NotThere } from "../components/Obstacles";
import { ErrorNotice } from "../components/QueryView";
import { PageLoadError } from "./lazyPage";
import layout from "../components/layout.module.css";

export function NotFound() {
  const { t } = useTranslation();
  const { pathname } = useLocation();
  return (
    <NotThere title={t("error.notFound")} isPage>
      {t("error.notFoundHint", { path: pathname })}
    </NotThere>
  );
}

export function PageError({ error, reset }: ErrorComponentProps) {
  const { t } = useTranslation();
  const router = useRouter();
  const isCode = error instanceof PageLoadError;
  const { state } = useLiveStatus();
  const away = useRef(state === "offline");
  const again = async (): Promise<void> => {
    const isThere =
      isCode &&
      (await client.GET("/api/v1/auth/state").then(
        () => true,
        () => false,
      ));
    if (isThere) return location.reload();
    reset();
    return router.invalidate();
  };
  useEffect(() => {
    if (!isCode) return;
    if (state === "offline") away.current = true;
    else if (away.current && state !== "reconnecting") {
      // Back again. Browsers may remember a failed import, and nothing is on this page to be lost.
      location.reload();
    }
  }, [state, isCode]);
  return (
    <div className={layout["page"]}>
      <ErrorNotice
        error={error instanceof Error ? error : new Error(String(error))}
        title={isCode ? t("error.pageCode") : undefined}
        onRetry={again}
      />
    </div>
  );
}

export function PagePending() {
  return (
    <div className={layout["page"]}>
      <Skeleton rows={8} hasHead />
    </div>
  );
}
