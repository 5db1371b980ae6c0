import "../../i18n/en/trials";

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import type { TrialDetail } from "../../api/queries";
import type { TrialSearch } from "../../app/router";
import type { LogFeed } from "./logFeed";
import { feedKey, isSearch, newFeed } from "./logQuery";
import { LogToolbar } from "./LogToolbar";
import { LogView } from "./LogView";

const NO_FILTER: Partial<TrialSearch> = { rank: undefined, node: undefined, stream: undefined, attempt: undefined, level: undefined, since: undefined, until: undefined, q: undefined, regex: undefined, exact: undefined, around: undefined };

export function Logs({ trial }: { trial: TrialDetail }) {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/trials/$trialId" });
  const navigate = useNavigate({ from: "/trials/$trialId" });
  const set = (change: Partial<TrialSearch>): void => {
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  };
  const streams = useQuery({
    queryKey: ["trial", trial.id, "log-streams"],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/trials/{trial_id}/logs/streams", { params: { path: { trial_id: trial.id } }, signal })),
  }).data?.items;
  const rankName = (rank: number): string => (rank < 0 ? t("logs.launcher") : t("rank.no", { rank }));

  // In its surroundings a search is a list of places beside the whole log; otherwise it is the log.
  const inContext = search.around === true && isSearch(search);
  const feed = useFeed(trial.id, search, !inContext);
  const hits = useFeed(trial.id, search, true, !inContext);
  return (
    <>
      <LogToolbar trial={trial} search={search} set={set} streams={streams ?? []} rankName={rankName} />
      <LogView key={feedKey(search, !inContext)} trial={trial} search={search} set={set} streams={streams ?? []} feed={feed} hits={inContext ? hits : null} rankName={rankName} onClear={() => set(NO_FILTER)} />
    </>
  );
}

/** A feed that is told when there is more to read; another question is another feed. */
function useFeed(trialId: number, search: TrialSearch, withLines: boolean, off = false): LogFeed | null {
  const key = feedKey(search, withLines);
  const [feed, setFeed] = useState<{ key: string; feed: LogFeed } | null>(null);
  const line = useMemo(() => search.line, [key]); // oxlint-disable-line react/exhaustive-deps -- where a new feed opens
  useEffect(() => {
    if (off) return setFeed(null);
    const next = newFeed(trialId, search, withLines);
    setFeed({ key, feed: next });
    void openFirst(next, line);
    const hint = coalesce(() => next.poll(), 250);
    const end = live.subscribe(`trial:${trialId}:logs`, hint);
    return () => {
      end();
      next.stop();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- the key says all that the question depends on
  }, [trialId, key, off]);
  return feed?.key === key ? feed.feed : null;
}

async function openFirst(feed: LogFeed, line: string | undefined): Promise<void> {
  if (line === undefined) return feed.poll();
  await feed.open({ line });
  // A link may name a line that these filters hide, or that is gone: the log itself is still of use.
  if (!feed.loaded) await feed.open({ from: "tail" });
}
