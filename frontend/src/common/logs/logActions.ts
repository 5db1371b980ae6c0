/** What can be done in a log view, by buttons and by keys. */
import type { KeyboardEvent } from "react";

import type { LogSearch } from "../../app/search";
import { lineKey, type LogFeed, type LogLine, type LogStart } from "./logFeed";
import { isSearch } from "./logQuery";
import type { LogRows } from "./useLogRows";
import type { LogScroll } from "./useLogScroll";

export type LogActions = ReturnType<typeof logActions>;

export function logActions(
  feed: LogFeed | null,
  log: LogRows,
  scroll: LogScroll,
  set: (change: Partial<LogSearch>) => void,
) {
  const { rows, rowOf, at, selected, found, hitAt } = log;
  const { box, lines, pause } = scroll;
  const stay = (): void => {
    if (scroll.wantsToFollow) pause();
  };
  const follow = (): void => {
    scroll.follow();
    set({ line: undefined });
    if (feed && !feed.atEnd) void feed.open({ from: "tail" });
  };
  const select = (line: LogLine | undefined): void => {
    stay();
    scroll.showWhenSelected(line && lineKey(line)); // it is in view where it was clicked
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
    stay();
    scroll.showWhenSelected(undefined);
    set({ line: lineKey(line) });
    if (rowOf(lineKey(line)) < 0) void feed?.open({ line: lineKey(line) });
  };
  const step = (by: 1 | -1): void => {
    // Without a place yet: from the newest hit backwards, from the oldest forwards.
    const next = hitAt < 0 ? (by < 0 ? found.at(-1) : found[0]) : found[hitAt + by];
    if (next) goTo(next);
  };
  const move = (by: 1 | -1): void => {
    const from = at >= 0 ? at + by : (lines.current?.getVirtualItemForOffset(box.current?.scrollTop ?? 0)?.index ?? 0);
    const row = rows[from];
    if (!row) return;
    select(row.line);
    lines.current?.scrollToIndex(from, { align: "auto" });
  };
  /** Show each line of a row, or one for all; closed from one of them, the first one is selected. */
  const open = (first: LogLine, isOpen: boolean): void => {
    stay();
    log.setOpen(first, isOpen);
    const row = rows[rowOf(lineKey(first))];
    if (!isOpen && selected && row?.same.includes(selected)) select(first);
  };
  const openSelected = (isOpen: boolean): void => {
    const first = rows[at]?.isOneOf ? rows.slice(0, at).findLast((row) => !row.isOneOf) : rows[at];
    if (first && first.same.length > 1) open(first.line, isOpen);
  };
  return { follow, pause, select, jump, step, move, open, openSelected };
}

/** Does what a key stands for; keys that mean nothing now are left to others. */
export function onLogKey(
  event: KeyboardEvent,
  act: LogActions,
  log: LogRows,
  scroll: LogScroll,
  search: LogSearch,
): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const selected = log.rows[log.at];
  const isOfMany = (selected?.same.length ?? 1) > 1 || selected?.isOneOf === true;
  const does: Record<string, (() => void) | false> = {
    Home: () => act.jump({ from: "head" }),
    End: act.follow,
    f: () => (scroll.wantsToFollow ? act.pause() : act.follow()),
    n: isSearch(search) && (() => act.step(1)),
    N: isSearch(search) && (() => act.step(-1)),
    ArrowDown: () => act.move(1),
    ArrowUp: () => act.move(-1),
    ArrowRight: isOfMany && (() => act.openSelected(true)),
    ArrowLeft: isOfMany && (() => act.openSelected(false)),
    Escape: search.line !== undefined && search.line !== "" && (() => act.select(undefined)),
  };
  const now = does[event.key];
  if (!now) return;
  event.preventDefault();
  event.stopPropagation();
  now();
}
