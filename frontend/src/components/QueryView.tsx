import { Button } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { ApiError, isUnreachable } from "../api/client";
import { messageOf } from "../i18n/server";
import { stamp } from "../lib/time";
import { Notice, PageHead, Skeleton } from "./basics";
import { FieldMessage, Original } from "./text/Message";
import { Forbidden, NotThere, Unreachable } from "./Obstacles";
import { useTimeZone } from "./Time";
import css from "./ui.module.css";

interface QueryLike<T> {
  data: T | undefined;
  error: Error | null;
  isPending: boolean;
  isError: boolean;
  isFetching: boolean;
  dataUpdatedAt: number;
  errorUpdatedAt: number;
  refetch: () => unknown;
}

/** What a failed request has to say; technical detail folded behind the request id. */
export function ErrorNotice({ error, onRetry, title }: { error: Error; onRetry?: () => unknown; title?: string }) {
  const { t } = useTranslation();
  const api = error instanceof ApiError ? error : null;
  const own = messageOf("errors", api?.code);
  const message = api?.status === 0 ? t("error.unreachable") : (own ?? error.message);
  return (
    <Notice
      tone="bad"
      title={title ?? message}
      action={
        onRetry ? (
          <Button size="compact-xs" variant="default" onClick={() => void onRetry()}>
            {t("common.retry")}
          </Button>
        ) : null
      }
    >
      {title ? <div>{message}</div> : null}
      {/* Where fields say what is wrong, the server's general sentence adds nothing to ours. */}
      {own && api?.fields.length === 0 ? <div lang="en">{error.message}</div> : null}
      {api && api.fields.length > 0 ? (
        <ul className={css["fields"]} data-testid="field-errors">
          {api.fields.map((field) => (
            <li key={`${field.path}:${field.message}`}>
              <span className="mono">{field.path}</span> <FieldMessage error={field} />
            </li>
          ))}
        </ul>
      ) : null}
      {api?.hint ? <div lang={own ? "en" : undefined}>{api.hint}</div> : null}
      {api && api.status > 0 ? (
        <span className="mono">
          {api.code}
          {api.requestId ? ` · ${api.requestId}` : ""}
        </span>
      ) : null}
    </Notice>
  );
}

/** In place of what does not exist, in the words of the server. */
function Missing({ error, isPage = false }: { error: ApiError; isPage?: boolean }) {
  const own = messageOf("errors", error.code);
  return (
    <NotThere title={own ?? error.message} isPage={isPage}>
      {own ? <Original text={[error.message, error.hint].filter(Boolean).join(" ")} /> : error.hint}
    </NotThere>
  );
}

interface FailureProps {
  error: Error;
  onRetry: () => unknown;
}

/** What stands in place of a page: under a heading, since its own did not come. */
function PageFailure({ error, onRetry }: FailureProps) {
  const { t } = useTranslation();
  if (error instanceof ApiError && error.status === 404) return <Missing error={error} isPage />;
  return (
    <>
      <PageHead title={t("error.pageCode")} />
      <Failure error={error} onRetry={onRetry} />
    </>
  );
}

/** What stands in place of data: why there is none, and what can be done. */
export function Failure({ error, onRetry }: FailureProps) {
  if (isUnreachable(error)) return <Unreachable onRetry={onRetry} />;
  if (error instanceof ApiError && error.status === 404) return <Missing error={error} />;
  if (error instanceof ApiError && error.status === 403) return <Forbidden />;
  return <ErrorNotice error={error} onRetry={onRetry} />;
}

/** The states of everything that is fetched: loading, failed (missing, forbidden, offline), stale, there. */
export function QueryView<T>({
  query,
  skeleton,
  isPage = false,
  children,
}: {
  query: QueryLike<T>;
  skeleton?: ReactNode;
  /** Whether the heading of the page is among what is fetched. */
  isPage?: boolean;
  children: (data: T) => ReactNode;
}) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  // While what has failed is fetched again, a query has no error; the page must not flicker for it. An error that
  // is followed by the next fetch at once is never seen here: then the last one that was stands for it.
  const [failure, setFailure] = useState(query.error);
  if (query.error && query.error !== failure) setFailure(query.error);
  if (query.data === undefined) {
    const error = query.error ?? (query.errorUpdatedAt > 0 ? failure : null);
    const Shown = isPage ? PageFailure : Failure;
    if (error) return <Shown error={error} onRetry={query.refetch} />;
    return skeleton ?? (isPage ? <Skeleton rows={8} hasHead /> : <Skeleton />);
  }
  // When the server cannot be reached the top bar says so once; panels only pale.
  const stale = query.isError && query.error;
  return (
    <>
      {stale && !isUnreachable(query.error) ? (
        <Notice
          tone="warn"
          title={t("error.stale", { time: stamp(query.dataUpdatedAt, zone, "time") })}
          action={
            <Button size="compact-xs" variant="default" onClick={() => void query.refetch()}>
              {t("common.retry")}
            </Button>
          }
        />
      ) : null}
      <div className={stale ? css["stale"] : undefined}>{children(query.data)}</div>
    </>
  );
}
