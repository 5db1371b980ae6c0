import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { coalesce } from "../../api/live";
import { live } from "../../api/liveHooks";
import type { LogSearch } from "../../app/search";
import { PhoneFold } from "../../components/tables/PhoneFold";
import type { LogFeed } from "./logFeed";
import { feedKey, isSearch, type LogSource, newFeed } from "./logQuery";
import { LogHistogram } from "./LogHistogram";
import { rankName } from "./LogLineView";
import { type LogStream, LogToolbar } from "./LogToolbar";
import { LogView } from "./LogView";

const NO_FILTER: Partial<LogSearch> = {
  trial: undefined,
  rank: undefined,
  node: undefined,
  stream: undefined,
  attempt: undefined,
  level: undefined,
  since: undefined,
  until: undefined,
  q: undefined,
  regex: undefined,
  exact: undefined,
  around: undefined,
};
/** So often a log is read that nobody tells about. */
const POLL_MS = 2000;

interface Props {
  source: LogSource;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
  /** As far as they are known: what can be downloaded and counted in. */
  streams: LogStream[];
  /** Ranks and nodes to choose from, beside those of the streams. */
  ranks?: number[];
  nodes?: string[];
}

/** A log with its filters: of a trial, or of all trials of an experiment. */
export function LogPane({ source, search, set, streams, ranks, nodes }: Props) {
  const { t } = useTranslation();
  const nameOf = (rank: number): string => rankName(t, rank, streams.find((stream) => stream.rank === rank)?.member);

  // In its surroundings a search is a list of places beside the whole log; otherwise it is the log.
  const inContext = search.around === true && isSearch(search);
  const feed = useFeed(source, search, !inContext);
  const hits = useFeed(source, search, true, !inContext);
  return (
    <>
      <PhoneFold title={t("logs.toolbar")}>
        <LogToolbar
          source={source}
          search={search}
          set={set}
          streams={streams}
          ranks={ranks}
          nodes={nodes}
          rankName={nameOf}
        />
      </PhoneFold>
      <LogHistogram source={source} search={search} set={set} />
      <LogView
        key={feedKey(source, search, !inContext)}
        source={source}
        search={search}
        set={set}
        streams={streams}
        feed={feed}
        hits={inContext ? hits : null}
        onClear={() => set(NO_FILTER)}
      />
    </>
  );
}

/** A feed that is told when there is more to read; another question is another feed. */
function useFeed(source: LogSource, search: LogSearch, withLines: boolean, off = false): LogFeed | null {
  const key = feedKey(source, search, withLines);
  const [feed, setFeed] = useState<{ key: string; feed: LogFeed } | null>(null);
  const line = useMemo(() => search.line, [key]); // oxlint-disable-line react/exhaustive-deps -- where a new feed opens
  const isPolled = source.topic === null && !source.isOver;
  useEffect(() => {
    if (off) return setFeed(null);
    const next = newFeed(source, search, withLines);
    setFeed({ key, feed: next });
    void openFirst(next, line);
    const hint = coalesce(() => next.poll(), 250);
    const end = source.topic === null ? undefined : live.subscribe(source.topic, hint);
    const timer = isPolled ? setInterval(() => (document.hidden ? undefined : void next.poll()), POLL_MS) : undefined;
    return () => {
      end?.();
      clearInterval(timer);
      next.stop();
    };
    // oxlint-disable-next-line react/exhaustive-deps -- the key says all that the question depends on
  }, [key, off, isPolled]);
  return feed?.key === key ? feed.feed : null;
}

async function openFirst(feed: LogFeed, line: string | undefined): Promise<void> {
  if (line === undefined) {
    await feed.poll();
    return feed.searchOn();
  }
  await feed.open({ line });
  // A link may name a line that these filters hide, or that is gone: the log itself is still of use.
  if (!feed.loaded) await feed.open({ from: "tail" });
}
