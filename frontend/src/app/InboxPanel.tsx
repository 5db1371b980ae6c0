import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../api/client";
import { inbox, type InboxEntry } from "../api/queries";
import { Empty, LoadMore } from "../components/basics";
import { LinkButton } from "../components/LinkButton";
import { QueryView } from "../components/QueryView";
import { Ago } from "../components/Time";
import { useTitles } from "../lib/catalog";
import css from "./inbox.module.css";

/** The user's inbox: what happened, newest first, each with a link to its page. */
export default function InboxPanel({ unread, onLeave }: { unread: number; onLeave: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const query = useInfiniteQuery(inbox);
  const read = useMutation({
    mutationFn: (ids: number[] | null) => unwrap(client.POST("/api/v1/notifications/inbox/read", { body: { ids } })),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["inbox"] }),
  });
  const open = (entry: InboxEntry): void => {
    if (!entry.is_read) read.mutate([entry.id]);
    onLeave();
  };
  return (
    <div data-testid="inbox">
      <div className={css["head"]}>
        <h2>{t("notify.inboxTitle")}</h2>
        {unread > 0 ? (
          <Button variant="subtle" size="compact-xs" loading={read.isPending} onClick={() => read.mutate(null)}>
            {t("notify.readAll")}
          </Button>
        ) : null}
        <LinkButton
          to="/settings"
          search={{ tab: "notifications" }}
          variant="subtle"
          color="gray"
          size="compact-xs"
          onClick={onLeave}
        >
          {t("notify.manage")}
        </LinkButton>
      </div>
      <div className={css["list"]}>
        <QueryView query={query}>
          {(data) => {
            const entries = data.pages.flatMap((page) => page.items);
            if (entries.length === 0) return <NothingYet onLeave={onLeave} />;
            return (
              <>
                <ul>
                  {entries.map((entry) => (
                    <Entry key={entry.id} entry={entry} onOpen={() => open(entry)} />
                  ))}
                </ul>
                <LoadMore query={query} shown={entries.length} />
              </>
            );
          }}
        </QueryView>
      </div>
    </div>
  );
}

function NothingYet({ onLeave }: { onLeave: () => void }) {
  const { t } = useTranslation();
  return (
    <div className={css["nothing"]}>
      <Empty
        title={t("notify.empty")}
        action={
          <LinkButton to="/settings" search={{ tab: "notifications" }} size="xs" variant="default" onClick={onLeave}>
            {t("notify.emptyRules")}
          </LinkButton>
        }
      >
        {t("notify.emptyHint")}
      </Empty>
    </div>
  );
}

function Entry({ entry, onOpen }: { entry: InboxEntry; onOpen: () => void }) {
  const { t } = useTranslation();
  return (
    <li>
      <Link to={entry.path} className={css["entry"]} data-unread={!entry.is_read || undefined} onClick={onOpen}>
        <span className={css["dot"]} data-level={entry.level} aria-hidden />
        <span className={css["words"]}>
          <span className={css["title"]}>
            {useTitles().event(entry.kind)}
            {entry.is_read ? null : <span className="srOnly"> {t("notify.unread")}</span>}
            <span className={css["age"]}>
              <Ago at={entry.at} short />
            </span>
          </span>
          <span className={css["about"]}>{useSubject(entry)}</span>
          <span className={css["message"]}>{entry.message}</span>
        </span>
      </Link>
    </li>
  );
}

/** What it is about, by name. */
function useSubject(entry: InboxEntry): string {
  const { t } = useTranslation();
  if (entry.experiment_id !== null) {
    const name = `${entry.experiment_name} (#${entry.experiment_id})`;
    return entry.trial_no === null ? name : t("notify.about.trial", { no: entry.trial_no, name });
  }
  if (entry.node_id !== null) return entry.node_name ?? entry.node_id;
  return entry.project === null ? "" : t("notify.about.project", { name: entry.project });
}
