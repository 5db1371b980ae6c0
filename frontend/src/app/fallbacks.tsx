import { Link, useRouter } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { Empty, Skeleton } from "../components/basics";
import { ErrorNotice } from "../components/QueryView";

export function NotFound() {
  const { t } = useTranslation();
  return (
    <div style={{ padding: 24 }}>
      <Empty title={t("error.notFound")} action={<Link to="/">{t("nav.overview")}</Link>} />
    </div>
  );
}

export function PageError({ error }: { error: unknown }) {
  const router = useRouter();
  return (
    <div style={{ padding: 24 }}>
      <ErrorNotice error={error instanceof Error ? error : new Error(String(error))} onRetry={() => router.invalidate()} />
    </div>
  );
}

export function PagePending() {
  return (
    <div style={{ padding: 24 }}>
      <Skeleton rows={6} />
    </div>
  );
}
