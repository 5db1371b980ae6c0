import { IconAlertTriangle, IconCircleX, IconInfoCircle } from "@tabler/icons-react";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import type { EventItem } from "../api/queries";
import { messageParts, type Part } from "../i18n/server";
import { Empty, LoadMore } from "./basics";
import { QueryView } from "./QueryView";
import { Message } from "./text/Message";
import { inWords } from "./StateBadge";
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
                      {messageParts(event.data["parts"] as Part[] | undefined) ?? (
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
