import "../../i18n/en/trials";

import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";

import type { LogSearch } from "../../app/router";
import { Empty, Notice, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { useTimeZone } from "../../components/Time";
import * as format from "../../lib/format";
import { usePref } from "../../lib/prefs";
import { stamp } from "../../lib/time";
import { LogBar, type LogDoing } from "./LogBar";
import { lineKey, type LogFeed, type LogLine, type LogStart } from "./logFeed";
import { LogLineView } from "./LogLineView";
import { rowsOf } from "./logRows";
import { isSearch, levelsOf, type LogSource, ranksOf, trialsOf } from "./logQuery";
import type { LogStream } from "./LogToolbar";
import css from "./trials.module.css";

const LINE_PX = 19;
/** So close to an end of the box the next page is read. */
const NEAR_PX = LINE_PX * 10;

interface Props {
  source: LogSource;
  search: LogSearch;
  set: (change: Partial<LogSearch>) => void;
  streams: LogStream[];
  feed: LogFeed | null;
  /** Where the search finds something, when the log is shown whole. */
  hits: LogFeed | null;
  rankName: (rank: number) => string;
  onClear: () => void;
}

export function LogView({ source, search, set, streams, feed, hits, rankName, onClear }: Props) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const wrap = usePref("log-wrap")[0] === "on";
  const box = useRef<HTMLDivElement>(null);
  const [following, setFollowing] = useState(search.line === undefined);
  const [seen, setSeen] = useState(0);
  useSyncExternalStore(feed?.subscribe ?? noSubscription, feed?.getVersion ?? zero);
  useSyncExternalStore(hits?.subscribe ?? noSubscription, hits?.getVersion ?? zero);
  const lines = feed?.lines ?? EMPTY;
  const merge = usePref("log-each")[0] !== "on";
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const { rows, rowOf, numHidden } = useMemo(() => rowsOf(lines, merge, opened, search.line), [lines, merge, opened, search.line]);
  const found = (hits ?? feed)?.lines ?? EMPTY;
  const hitKeys = useMemo(() => new Set(hits ? found.map(lineKey) : []), [hits, found]);

  // oxlint-disable-next-line react/incompatible-library -- what it returns is used here alone
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
    getItemKey: (index) => (rows[index] ? lineKey(rows[index].line) : index),
  });
  const total = lines.length;
  const height = virtual.getTotalSize(); // of wrapped lines it is known only once they were drawn
  const isLive = feed?.atEnd === true;
  useEffect(() => {
    if (!following || !isLive || total === 0) return;
    if (box.current) box.current.scrollTop = height;
    setSeen(total);
  }, [following, isLive, total, height]);
  useEffect(() => virtual.measure(), [wrap, virtual]);

  // The line that the URL names is brought into view once, when it comes.
  const shownLine = useRef<string | undefined>(undefined);
  const at = search.line === undefined ? -1 : (rowOf.get(search.line) ?? -1);
  const selected = at < 0 ? undefined : rows[at]?.line;
  useLayoutEffect(() => {
    if (at < 0 || shownLine.current === search.line) return;
    shownLine.current = search.line;
    virtual.scrollToIndex(at, { align: "center" });
  }, [at, search.line, virtual]);

  const grow = (element: HTMLDivElement): void => {
    if (!feed || following) return;
    // What was at the top stays there, whichever row stands for it then.
    const top = virtual.getVirtualItemForOffset(element.scrollTop)?.index ?? 0;
    const held = rows[top]?.line;
    const hold = (): void => {
      const now = held && rowsOf(feed.lines, merge, opened, search.line).rowOf.get(lineKey(held));
      if (now === undefined || now === top || !box.current) return;
      if (wrap) virtual.scrollToIndex(now, { align: "start" });
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
    const isFollowing = bottom && feed.atEnd && (following || search.line === undefined);
    if (isFollowing !== following) setFollowing(isFollowing);
    if (!isFollowing && following) setSeen(total);
    grow(element);
  };

  const follow = (): void => {
    setFollowing(true);
    set({ line: undefined });
    if (feed && !feed.atEnd) void feed.open({ from: "tail" });
  };
  const pause = (): void => {
    setFollowing(false);
    setSeen(total);
  };
  const select = (line: LogLine | undefined): void => {
    if (following) pause();
    shownLine.current = line && lineKey(line); // it is in view where it was clicked
    set({ line: line && lineKey(line) });
  };
  const jump = (start: LogStart): void => {
    pause();
    void feed?.open(start).then(() => {
      if ("from" in start) box.current?.scrollTo({ top: 0 });
      else {
        // Above the place stand some lines of what comes before it.
        const first = feed.firstOfPlace();
        if (first) set({ line: lineKey(first) });
      }
    });
  };
  const goTo = (line: LogLine): void => {
    if (following) pause();
    shownLine.current = undefined;
    set({ line: lineKey(line) });
    if (!rowOf.has(lineKey(line))) void feed?.open({ line: lineKey(line) });
  };
  const hitAt = found.findIndex((line) => lineKey(line) === search.line);
  const step = (by: 1 | -1): void => {
    // Without a place yet: from the newest hit backwards, from the oldest forwards.
    const next = hitAt < 0 ? (by < 0 ? found.at(-1) : found[0]) : found[hitAt + by];
    if (next) goTo(next);
  };
  const move = (by: 1 | -1): void => {
    const from = at >= 0 ? at + by : (virtual.getVirtualItemForOffset(box.current?.scrollTop ?? 0)?.index ?? 0);
    const row = rows[from];
    if (!row) return;
    select(row.line);
    virtual.scrollToIndex(from, { align: "auto" });
  };
  /** Show each line of a row, or one for all; closed from one of them, the first one is selected. */
  const open = (first: LogLine, isOpen: boolean): void => {
    if (following) pause();
    const next = new Set(opened);
    if (isOpen) next.add(lineKey(first));
    else next.delete(lineKey(first));
    setOpened(next);
    const row = rows[rowOf.get(lineKey(first)) ?? -1];
    if (!isOpen && selected && row?.same.includes(selected)) select(first);
  };
  const openSelected = (isOpen: boolean): void => {
    const first = rows[at]?.isOneOf ? rows.slice(0, at).findLast((row) => !row.isOneOf) : rows[at];
    if (first && first.same.length > 1) open(first.line, isOpen);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act: Record<string, () => void> = {
      Home: () => jump({ from: "head" }),
      End: follow,
      f: () => (following ? pause() : follow()),
      n: () => step(1),
      N: () => step(-1),
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      ArrowRight: () => openSelected(true),
      ArrowLeft: () => openSelected(false),
      Escape: () => select(undefined),
    };
    const does = act[event.key];
    if (!does || ((event.key === "n" || event.key === "N") && !isSearch(search)) || (event.key === "Escape" && !search.line) || (event.key === "ArrowRight" || event.key === "ArrowLeft" ? (rows[at]?.same.length ?? 1) < 2 && !rows[at]?.isOneOf : false)) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  };

  if (!feed?.loaded) {
    return feed?.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : <Skeleton rows={10} />;
  }
  const filtered = ranksOf(search).length > 0 || (source.trials !== null && trialsOf(search).length > 0) || Boolean(search.node ?? search.stream ?? search.attempt ?? search.since ?? search.until) || (hits === null && isSearch(search));
  const fresh = Math.max(0, total - seen);
  const doing: LogDoing = feed.error ? "stale" : feed.complete ? "complete" : following && isLive ? "following" : source.isOver ? "part" : "paused";
  const marked = search.q && !search.regex ? search.q : "";
  const title = (line: LogLine): string => `${source.trials === null ? "" : `${t("nav.trialNo", { no: line.trial_no })} · ${t("ranks.attemptNo", { no: line.attempt_no })} · `}${rankName(line.rank)} · ${line.node_name} · ${line.stream} · ${t("logs.lineNo", { no: format.count(line.no + 1) })}`;
  return (
    <>
      {feed.truncated.length > 0 ? <Notice tone="warn" title={t("logs.truncated", { streams: feed.truncated.join(", ") })} /> : null}
      {feed.error ? <ErrorNotice error={feed.error} onRetry={() => feed.poll()} /> : null}
      {feed.left ? <LeftOut left={feed.left} onGoOn={(until) => set({ until, line: undefined })} /> : null}
      {hits?.error ? <ErrorNotice error={hits.error} onRetry={() => hits.poll()} /> : null}
      <LogBar
        feed={feed}
        numMerged={numHidden}
        withTrial={source.trials !== null}
        hits={isSearch(search) ? (hits ?? feed) : null}
        hitNo={hitAt + 1}
        doing={doing}
        selected={selected}
        about={selected ? `${title(selected)} · ${stamp(selected.time_ms, zone)}` : ""}
        streams={streams}
        search={search}
        set={set}
        onStep={step}
        onJump={jump}
        onFollow={follow}
        onPause={pause}
      />
      {total === 0 && feed.searchStopped ? null : total === 0 ? (
        <Empty title={t(filtered ? "logs.noMatch" : source.isOver ? (source.trials === null ? "logs.none" : "logs.noneOfAll") : "logs.waiting")} action={filtered ? <Button variant="default" onClick={onClear}>{t("common.clearFilters")}</Button> : null}>
          {filtered ? (feed.numLines > 0 ? t("logs.hidden", { count: feed.numLines, n: format.count(feed.numLines) }) : null) : source.isOver ? null : source.waitingFor || null}
        </Empty>
      ) : (
        <div className={css["logWrap"]}>
          {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex, jsx-a11y/no-noninteractive-element-interactions -- a scrolling region must be reachable, and its keys are its own */}
          <div className={css["logBox"]} ref={box} onScroll={onScroll} onKeyDown={onKeyDown} tabIndex={0} role="log" aria-live="off" aria-label={t("trial.tab.logs")} aria-describedby="log-keys" data-testid="log" data-num-lines={total} data-num-rows={rows.length} data-following={following && isLive} data-complete={feed.complete}>
            <div style={{ height, position: "relative", minWidth: "100%" }}>
              {virtual.getVirtualItems().map((item) => {
                const row = rows[item.index];
                if (!row) return null;
                return <LogLineView key={item.key} index={item.index} measure={wrap ? virtual.measureElement : undefined} row={row} top={item.start} time={stamp(row.line.time_ms, zone, "time")} title={title(row.line)} withTrial={source.trials !== null} marked={marked} isHit={row.same.some((one) => hitKeys.has(lineKey(one)))} isSelected={item.index === at} onSelect={select} onOpen={open} />;
              })}
            </div>
          </div>
          {!following && (fresh > 0 || !feed.atEnd || !feed.complete) ? (
            <Button className={css["jump"]} leftSection={<IconArrowDown size={14} />} onClick={follow} data-testid="log-follow">
              {fresh > 0 && isLive ? t("logs.newLines", { count: fresh }) : t(source.isOver ? "logs.toEnd" : "logs.follow")}
            </Button>
          ) : null}
        </div>
      )}
      <p className={css["logKeys"]} id="log-keys">
        {t("logs.keys")}
        {levelsOf(search).length > 0 ? ` ${t("logs.levelRule")}` : ""}
      </p>
    </>
  );
}

/** Of too many streams some are not read: until when what is shown is all there is, and how to go on. */
function LeftOut({ left, onGoOn }: { left: NonNullable<LogFeed["left"]>; onGoOn: (until: string) => void }) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  return (
    <Notice
      title={t("logs.left", { count: left.num_streams, n: format.count(left.num_streams), at: stamp(Date.parse(left.until), zone) })}
      action={
        <Button size="compact-xs" variant="default" onClick={() => onGoOn(left.until)} data-testid="log-go-on">
          {t("logs.goOn")}
        </Button>
      }
    />
  );
}

const EMPTY: LogLine[] = [];
const noSubscription = (): (() => void) => () => {};
const zero = (): number => 0;
