/** The rows of a log view: lines that came, repeated ones merged, and where the search found something. */
import { useMemo, useState, useSyncExternalStore } from "react";

import type { LogSearch } from "../../app/search";
import { usePref } from "../../lib/prefs";
import { lineKey, type LogFeed, type LogLine } from "./logFeed";
import { newArranger } from "./logRows";

export type LogRows = ReturnType<typeof useLogRows>;

/** `hits`: where the search finds something, when the log is shown whole. */
export function useLogRows(feed: LogFeed | null, hits: LogFeed | null, selectedKey: LogSearch["line"]) {
  useSyncExternalStore(feed?.subscribe ?? noSubscription, feed?.getVersion ?? zero);
  useSyncExternalStore(hits?.subscribe ?? noSubscription, hits?.getVersion ?? zero);
  const lines = feed?.lines ?? EMPTY;
  const merge = usePref("log-each")[0] !== "on";
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [arrange] = useState(newArranger);
  const arranged = arrange(lines, merge, opened, selectedKey);
  const found = (hits ?? feed)?.lines ?? EMPTY;
  const hitKeys = useMemo(() => new Set(hits ? found.map(lineKey) : []), [hits, found]);
  const at = useMemo(() => (selectedKey === undefined ? -1 : arranged.rowOf(selectedKey)), [arranged, selectedKey]);
  return {
    ...arranged,
    numLines: lines.length,
    /** The row that the address names; -1 while it is not there. */
    at,
    selected: at < 0 ? undefined : arranged.rows[at]?.line,
    found,
    hitAt: selectedKey === undefined ? -1 : found.findIndex((line) => lineKey(line) === selectedKey),
    isHit: (line: LogLine): boolean => hitKeys.has(lineKey(line)),
    /** The row of a line once newer or older ones have come, before they are drawn. */
    rowNow: (line: LogLine): number | undefined =>
      feed ? arrange(feed.lines, merge, opened, selectedKey).rowOf(lineKey(line)) : undefined,
    /** Show each line of a row, or one for all. */
    setOpen: (first: LogLine, isOpen: boolean): void => {
      const next = new Set(opened);
      if (isOpen) next.add(lineKey(first));
      else next.delete(lineKey(first));
      setOpened(next);
    },
  };
}

const EMPTY: LogLine[] = [];
const noSubscription = (): (() => void) => () => {};
const zero = (): number => 0;
