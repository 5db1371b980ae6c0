import { expect, test } from "vitest";

import { LogFeed, type LogAsk, type LogPage, MAX_LINES, PAGE_LINES } from "./logFeed";

const line = (no: number) => ({ stream_id: 1, rank: 0, local_rank: 0, node_name: "n", attempt_no: 1, stream: "stdout", no, time_ms: no, text: `line ${no}`, cut: false, partial: false });

/** A server with lines 0..end, cursors are line numbers. */
function server(state: { end: number; complete: boolean }) {
  return async (ask: LogAsk): Promise<LogPage> => {
    let from: number;
    let to: number;
    if (ask.cursor?.startsWith("o")) {
      to = Number(ask.cursor.slice(1));
      from = Math.max(0, to - ask.limit);
    } else if (ask.cursor) {
      from = Number(ask.cursor.slice(1));
      to = Math.min(state.end, from + ask.limit);
    } else {
      to = state.end;
      from = Math.max(0, to - ask.limit);
    }
    return { lines: Array.from({ length: to - from }, (_, i) => line(from + i)), older: from > 0 ? `o${from}` : null, newer: `n${to}`, complete: state.complete, num_lines: state.end, truncated_streams: [], search_stopped: false };
  };
}

test("it opens at the tail, follows, and grows upwards", async () => {
  const state = { end: 1200, complete: false };
  const feed = new LogFeed(server(state));
  await feed.poll();
  expect(feed.lines[0]?.no).toBe(1200 - PAGE_LINES);
  state.end = 1203;
  await feed.poll();
  expect(feed.lines.at(-1)?.no).toBe(1202);
  expect(await feed.loadOlder()).toBe(PAGE_LINES);
  const numbers = feed.lines.map((l) => l.no);
  expect(numbers).toEqual([...numbers].toSorted((a, b) => a - b));
  expect(new Set(numbers).size).toBe(numbers.length);
});

test("what came while away is read to its end", async () => {
  const state = { end: 10, complete: false };
  const feed = new LogFeed(server(state));
  await feed.poll();
  state.end = 10 + PAGE_LINES * 3;
  await feed.poll();
  expect(feed.lines).toHaveLength(state.end);
});

test("the window is bounded", async () => {
  const state = { end: 0, complete: false };
  const feed = new LogFeed(server(state));
  await feed.poll();
  state.end = MAX_LINES + 700;
  await feed.poll();
  expect(feed.lines).toHaveLength(MAX_LINES);
  expect(feed.dropped).toBe(700);
  expect(feed.lines.at(-1)?.no).toBe(state.end - 1);
});

test("an empty log is complete when the server says so", async () => {
  const feed = new LogFeed(server({ end: 0, complete: true }));
  await feed.poll();
  expect(feed.loaded).toBe(true);
  expect(feed.complete).toBe(true);
});

test("a line whose end arrives later is replaced, not doubled", async () => {
  const pages = [
    [{ ...line(0) }, { ...line(1), text: "load", partial: true }],
    [{ ...line(1), text: "loading" }, line(2)],
  ];
  const feed = new LogFeed(async () => ({ lines: pages.shift() ?? [], older: null, newer: "n", complete: false, num_lines: 3, truncated_streams: [], search_stopped: false }));
  await feed.poll();
  await feed.poll();
  expect(feed.lines.map((l) => l.text)).toEqual(["line 0", "loading", "line 2"]);
});
