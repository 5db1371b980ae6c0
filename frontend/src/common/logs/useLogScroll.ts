/** Where a log view stands: at the end and following it, or at a place that stays while lines come on both sides. */
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";

import type { LogSearch } from "../../app/search";
import { usePref } from "../../lib/prefs";
import { lineKey, type LogFeed } from "./logFeed";
import type { LogRows } from "./useLogRows";

const LINE_PX = 19;
/** So close to an end of the box the next page is read. */
const NEAR_PX = LINE_PX * 10;

/** Lines above and below the box that are drawn ahead. */
const OVERSCAN = 10;

type Lines = Virtualizer<HTMLDivElement, Element>;

export type LogScroll = ReturnType<typeof useLogScroll>;

export function useLogScroll(feed: LogFeed | null, log: LogRows, selectedKey: LogSearch["line"]) {
  const { rows, numLines } = log;
  const wrap = usePref("log-wrap")[0] === "on";
  const box = useRef<HTMLDivElement>(null);
  /** The lines in view, of which only the box knows while it scrolls: the rest of the page is not rendered for it. */
  const lines = useRef<Lines | null>(null);
  const [following, setFollowing] = useState(selectedKey === undefined);
  const [seen, setSeen] = useState(0);
  const isLive = feed?.atEnd === true;
  useEffect(() => {
    if (following && isLive) setSeen(numLines);
  }, [following, isLive, numLines]);
  // The line that the URL names is brought into view once, when it comes.
  const shownLine = useRef<string | undefined>(undefined);

  const pause = (): void => {
    setFollowing(false);
    setSeen(numLines);
  };
  const grow = (element: HTMLDivElement): void => {
    if (!feed || following) return;
    // What was at the top stays there, whichever row stands for it then.
    const top = lines.current?.getVirtualItemForOffset(element.scrollTop)?.index ?? 0;
    const held = rows[top]?.line;
    const hold = (): void => {
      const now = held && log.rowNow(held);
      if (now === undefined || now === top || !box.current) return;
      if (wrap) lines.current?.scrollToIndex(now, { align: "start" });
      else box.current.scrollTop += (now - top) * LINE_PX;
    };
    if (element.scrollTop < NEAR_PX && feed.hasOlder) {
      void feed.loadOlder().then((added) => {
        if (added > 0) hold();
        setSeen((n) => n + added);
      });
    }
    if (element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX && !feed.atEnd) {
      void feed.loadNewer().then((dropped) => {
        if (dropped > 0) hold();
      });
    }
  };
  const onScroll = (): void => {
    const element = box.current;
    if (!element || !feed) return;
    const bottom = element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2;
    const isFollowing = bottom && feed.atEnd && (following || selectedKey === undefined);
    if (isFollowing !== following) setFollowing(isFollowing);
    if (!isFollowing && following) setSeen(numLines);
    grow(element);
  };
  return {
    box,
    lines,
    shownLine,
    wrap,
    following: following && isLive,
    wantsToFollow: following,
    isLive,
    numFresh: Math.max(0, numLines - seen),
    onScroll,
    pause,
    follow: (): void => setFollowing(true),
    /** Whether a line is brought into view when it is selected. */
    showWhenSelected: (key: string | undefined): void => {
      shownLine.current = key;
    },
  };
}

/** The lines that are in view: rendered anew whenever the box scrolls. */
export function useLineWindow(
  scroll: LogScroll,
  { rows, at, numLines }: LogRows,
  selectedKey: LogSearch["line"],
): Lines {
  const { box, lines, shownLine, wrap, following } = scroll;
  // Measured heights belong to lines. Lines that are not wrapped are all as high, wherever they stand.
  const keyOf = useCallback((index: number) => (wrap && rows[index] ? lineKey(rows[index].line) : index), [rows, wrap]);
  // oxlint-disable-next-line react/incompatible-library -- what it returns is used by the log view alone
  const virtual = useVirtualizer<HTMLDivElement, Element>({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: lineHeight,
    overscan: OVERSCAN,
    getItemKey: keyOf,
  });
  useLayoutEffect(() => {
    lines.current = virtual;
  }, [lines, virtual]);
  const height = virtual.getTotalSize(); // of wrapped lines it is known only once they were drawn
  useEffect(() => {
    if (following && numLines > 0 && box.current) box.current.scrollTop = height;
  }, [following, numLines, height, box]);
  useEffect(() => virtual.measure(), [wrap, virtual]);
  useLayoutEffect(() => {
    if (at < 0 || shownLine.current === selectedKey) return;
    shownLine.current = selectedKey;
    virtual.scrollToIndex(at, { align: "center" });
  }, [at, selectedKey, shownLine, virtual]);
  return virtual;
}

const lineHeight = (): number => LINE_PX;
