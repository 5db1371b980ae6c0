import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { Notice } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Mark } from "../../components/text/Mark";
import { Stamp } from "../../components/Time";
import { useFromHash } from "../../components/useFromHash";
import { ReportBlocks } from "./ReportBlocks";
import css from "./reports.module.css";

/** The page that a link to a report opens, without an account and without other pages. */
export function SharedReport() {
  const { t } = useTranslation();
  const token = useFromHash("report");
  return (
    <main className={css["shared"]}>
      <div className={css["brand"]}>
        <Mark />
        Muster
      </div>
      {token ? (
        <Opened key={token} token={token} />
      ) : (
        <Notice tone="warn" title={t("reports.noLink")}>
          {t("reports.noLinkHint")}
        </Notice>
      )}
    </main>
  );
}

function Opened({ token }: { token: string }) {
  const { t } = useTranslation();
  // Asked once: every question counts as an attempt.
  const query = useQuery({
    queryKey: ["shared-report", token],
    queryFn: () => unwrap(client.POST("/api/v1/shared-report", { body: { token } })),
    staleTime: Infinity,
    retry: false,
  });
  return (
    <QueryView query={query}>
      {({ title, content, expires_at: end }) => (
        <>
          <title>{`${title} · Muster`}</title>
          <header>
            <h1>{title}</h1>
            <p className="dim">
              {t("reports.valuesOf")} <Stamp at={content.at} /> · {t("reports.linkUntil")} <Stamp at={end} />
            </p>
          </header>
          <ReportBlocks content={content} isShared />
        </>
      )}
    </QueryView>
  );
}
