import { IconAlertTriangle, IconCircleX, IconInfoCircle } from "@tabler/icons-react";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { i18n } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { EventItem } from "../api/queries";
import { COLON, messageParts, type Part } from "../i18n/server";
import { Empty, LoadMore } from "./basics";
import { QueryView } from "./QueryView";
import { inWords, stateWord } from "./StateBadge";
import { Message, Original } from "./text/Message";
import { Stamp } from "./Time";
import css from "./ui.module.css";

const ICONS = { info: IconInfoCircle, warning: IconAlertTriangle, error: IconCircleX } as const;

/** What happened to something, newest first. */
export function Events({
  query,
}: {
  query: UseInfiniteQueryResult<InfiniteData<{ items: EventItem[]; next: string | null }>>;
}) {
  const { t, i18n } = useTranslation();
  return (
    <QueryView query={query}>
      {(data) => {
        const items = data.pages.flatMap((page) => page.items);
        if (items.length === 0) return <Empty title={t("events.empty")} />;
        return (
          <>
            <ul className={css["events"]} data-testid="events">
              {items.map((event) => {
                const Icon = ICONS[event.level] ?? IconInfoCircle;
                return (
                  <li key={event.id} data-level={event.level}>
                    <Stamp at={event.at} />
                    <Icon size={14} aria-label={t(`events.level.${event.level}`)} />
                    <div title={event.type}>
                      {messageParts(event.data["parts"] as Part[] | undefined) ?? stateChange(i18n, event) ?? (
                        <Message kind="events" code={event.type} text={inWords(i18n, event.message || event.type)} />
                      )}
                    </div>
                  </li>
                );
              })}
            </ul>
            <LoadMore query={query} shown={items.length} />
          </>
        );
      }}
    </QueryView>
  );
}

const CHANGE = /^(?:(Trial|Attempt) (\d+)|The experiment) is [A-Z_]+(?:: (.*))?\.$/s;

/** A new state in the words of a page that is not in English, then why; null for any other event. */
function stateChange({ language, t }: i18n, { data, message }: Pick<EventItem, "data" | "message">): ReactNode {
  const after = data["after"];
  const change = language === "en" || typeof after !== "string" ? null : CHANGE.exec(message);
  if (!change || typeof after !== "string") return null;
  const [, kind, no, why] = change;
  const subject =
    kind === "Trial"
      ? t("nav.trialNo", { no: no ?? "" })
      : kind === "Attempt"
        ? t("ranks.attemptNo", { no: no ?? "" })
        : t("experiments.name");
  return (
    <>
      {subject}
      {COLON}
      {stateWord(t, after)}
      {why ? <Original text={why} /> : null}
    </>
  );
}
