import { ActionIcon, Button, CopyButton, Tooltip } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconCircleCheck, IconCopy, IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { count, pct } from "../lib/format";
import { lookOf, TRIAL_STATES } from "../lib/states";
import { GuideLink } from "./text/GuideLink";
import { stateWord } from "./StateBadge";
import figureCss from "./figures.module.css";
import css from "./ui.module.css";
import layout from "./layout.module.css";

const LONG_TITLE = 60;

export function PageHead({
  title,
  badge,
  actions,
  sub,
  guide,
}: {
  title: ReactNode;
  badge?: ReactNode;
  actions?: ReactNode;
  sub?: ReactNode;
  /** What the documentation says about this page: "guides/agents#shared-storage". */
  guide?: string;
}) {
  return (
    <header className={css["head"]}>
      <h1 data-long={(typeof title === "string" && title.length > LONG_TITLE) || undefined}>{title}</h1>
      {guide ? <GuideLink to={guide} about={typeof title === "string" ? title : undefined} /> : null}
      {badge}
      {actions ? <div className={css["headActions"]}>{actions}</div> : null}
      {sub ? <div className={css["headSub"]}>{sub}</div> : null}
    </header>
  );
}

/** At most two lines of a name that may be long; all of it in the tooltip. */
export function Clamped({ text }: { text: string }) {
  return (
    <span className={css["clamp"]} title={text}>
      {text}
    </span>
  );
}

export function Section({
  title,
  note,
  guide,
  children,
  testId,
}: {
  title?: ReactNode;
  note?: ReactNode;
  /** What the documentation says about it. */
  guide?: string;
  children: ReactNode;
  testId?: string;
}) {
  return (
    <section className={css["section"]} data-testid={testId}>
      {title ? (
        <div className={css["sectionHead"]}>
          <h2>{title}</h2>
          {guide ? <GuideLink to={guide} about={typeof title === "string" ? title : undefined} /> : null}
          {note ? <span className={css["sectionNote"]}>{note}</span> : null}
        </div>
      ) : null}
      {children}
    </section>
  );
}

export function Notice({
  tone = "run",
  title,
  children,
  action,
}: {
  tone?: "run" | "warn" | "bad" | "ok";
  title?: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
}) {
  const Icon = tone === "run" ? IconInfoCircle : tone === "ok" ? IconCircleCheck : IconAlertTriangle;
  return (
    <div className={css["notice"]} data-tone={tone} role={tone === "bad" ? "alert" : "status"}>
      <Icon size={16} aria-hidden />
      <div>
        {title ? <div className={css["noticeTitle"]}>{title}</div> : null}
        {children ? <div className={css["noticeDetail"]}>{children}</div> : null}
      </div>
      {action}
    </div>
  );
}

/** Sentences, one below the other; a single one stands alone. */
export function Lines({ items }: { items: string[] }) {
  if (items.length <= 1) return items.length === 1 ? <p className={layout["text"]}>{items[0]}</p> : null;
  return (
    <ul className={layout["bullets"]}>
      {items.map((item) => (
        <li key={item}>{item}</li>
      ))}
    </ul>
  );
}

/** In place of what is not there: because there is none yet, or, with an icon, because something is in the way. */
export function Empty({
  title,
  children,
  action,
  icon: Icon,
  isAlert = false,
  testId = "empty",
}: {
  title: ReactNode;
  children?: ReactNode;
  action?: ReactNode;
  icon?: typeof IconCheck;
  /** Read out as soon as it appears. */
  isAlert?: boolean;
  testId?: string;
}) {
  return (
    <div className={css["empty"]} data-testid={testId} role={isAlert ? "alert" : undefined}>
      {Icon ? <Icon size={20} stroke={1.75} className={css["emptyIcon"]} aria-hidden /> : null}
      <div className={css["emptyTitle"]}>{title}</div>
      {children}
      {action ? <div className={css["emptyAction"]}>{action}</div> : null}
    </div>
  );
}

/** hasHead: the title of a page is not there either. */
export function Skeleton({ rows = 5, hasHead = false }: { rows?: number; hasHead?: boolean }) {
  const { t } = useTranslation();
  return (
    <div className={css["skeleton"]} role="status" aria-label={t("common.loading")}>
      {hasHead ? <span data-head /> : null}
      {Array.from({ length: rows }, (_, i) => (
        // oxlint-disable-next-line react/no-array-index-key -- fixed rows without identity
        <span key={i} />
      ))}
    </div>
  );
}

export interface StatItem {
  label: ReactNode;
  value: ReactNode;
  note?: ReactNode;
  tone?: "warn" | "bad";
  testId?: string;
  title?: string;
}

export function Stats({ items, compact = false }: { items: StatItem[]; compact?: boolean }) {
  return (
    <div className={`${figureCss["stats"]} ${compact ? figureCss["compact"] : ""}`}>
      {items.map((item) => (
        <div
          key={String(item.testId ?? item.label)}
          data-testid={item.testId}
          title={item.title ?? (typeof item.value === "string" ? item.value : undefined)}
        >
          <div className={figureCss["statLabel"]}>{item.label}</div>
          <div className={figureCss["statValue"]}>{item.value}</div>
          <div className={figureCss["statNote"]} data-tone={item.tone}>
            {item.note}
          </div>
        </div>
      ))}
    </div>
  );
}

/** Trials by state as one bar, with the words in its label. */
export function TrialsBar({ byState, planned }: { byState: Record<string, number>; planned: number | null }) {
  const { t } = useTranslation();
  const known = Object.values(byState).reduce((sum, n) => sum + n, 0);
  const total = Math.max(planned ?? 0, known, 1);
  const states = [...TRIAL_STATES, ...Object.keys(byState).filter((s) => !TRIAL_STATES.includes(s as never))];
  const text = states
    .filter((state) => byState[state])
    .map((state) => `${byState[state]} ${stateWord(t, state)}`)
    .join(", ");
  return (
    <span className={figureCss["bar"]} role="img" aria-label={text} title={text}>
      {states
        .filter((state) => byState[state] && state !== "QUEUED")
        .map((state) => (
          <span
            key={state}
            data-tone={lookOf(state).tone}
            style={{ width: `${((byState[state] ?? 0) / total) * 100}%` }}
          />
        ))}
    </span>
  );
}

export function Meter({
  value,
  tone = "run",
  label,
  text,
}: {
  value: number | null;
  tone?: "run" | "ok" | "warn" | "bad";
  label: string;
  text?: string;
}) {
  const shown = text ?? pct(value);
  return (
    <span className={figureCss["meter"]}>
      <span
        className={figureCss["bar"]}
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={value === null ? undefined : Math.round(value * 100)}
      >
        <span data-tone={tone} style={{ width: `${Math.min(1, Math.max(0, value ?? 0)) * 100}%` }} />
      </span>
      <span>{shown}</span>
    </span>
  );
}

export function CopyIcon({ value }: { value: string }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t("common.copied") : t("common.copy")}>
          <ActionIcon size="sm" variant="subtle" color="gray" onClick={copy} aria-label={t("common.copy")}>
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

export function Code({ text, wrap = false, testId }: { text: string; wrap?: boolean; testId?: string }) {
  return (
    <div className={css["codeBox"]}>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <pre className={css["code"]} data-wrap={wrap || undefined} data-testid={testId} tabIndex={0}>
        {text}
      </pre>
      <span className={css["codeCopy"]}>
        <CopyIcon value={text} />
      </span>
    </div>
  );
}

export function KeyValues({ items }: { items: [ReactNode, ReactNode][] }) {
  return (
    <dl className={css["kv"]}>
      {items.map(([key, value]) => (
        <div key={String(key)} className={layout["contents"]}>
          <dt>{key}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What is asked for a list that comes in pages. */
export interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

/** all: of how many, where that is known. */
export function LoadMore({ query, shown, all }: { query: Pages; shown: number; all?: number }) {
  const { t } = useTranslation();
  if (!query.hasNextPage) return null;
  return (
    <div className={css["more"]}>
      <Button
        size="xs"
        variant="default"
        onClick={() => void query.fetchNextPage()}
        loading={query.isFetchingNextPage}
        data-testid="load-more"
      >
        {t("common.more")}
      </Button>
      <span className="num">
        {all === undefined
          ? t("common.shown", { n: count(shown) })
          : t("common.shownOf", { n: count(shown), all: count(Math.max(all, shown)) })}
      </span>
    </div>
  );
}
