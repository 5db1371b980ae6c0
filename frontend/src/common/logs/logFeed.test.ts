import { expect, test } from "vitest";

import { LogFeed, type LogAsk, type LogPage, MAX_LINES, PAGE_LINES } from "./logFeed";

const line = (no: number) => ({
  trial_id: 1,
  trial_no: 1,
  stream_id: 1,
  rank: 0,
  member: "",
  local_rank: 0,
  node_name: "n",
  attempt_no: 1,
  stream: "stdout",
  no,
  time_ms: no,
  text: `line ${no}`,
  level: null,
  cut: false,
  partial: false,
});

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
    } else if (ask.line !== undefined || ask.from === "head") {
      from = Number(ask.line?.split(":")[1] ?? 0);
      to = Math.min(state.end, from + ask.limit);
    } else {
      to = state.end;
      from = Math.max(0, to - ask.limit);
    }
    return {
      lines: Array.from({ length: to - from }, (_, i) => line(from + i)),
      older: from > 0 ? `o${from}` : null,
      newer: `n${to}`,
      at_end: to === state.end,
      complete: state.complete,
      num_lines: state.end,
      truncated_streams: [],
      search_stopped: false,
      searched: null,
    };
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
  const feed = new LogFeed(async () => ({
    lines: pages.shift() ?? [],
    older: null,
    newer: "n",
    at_end: true,
    complete: false,
    num_lines: 3,
    truncated_streams: [],
    search_stopped: false,
    searched: null,
  }));
  await feed.poll();
  await feed.poll();
  expect(feed.lines.map((l) => l.text)).toEqual(["line 0", "loading", "line 2"]);
});

test("opened at a line it holds what is around, and does not run after the end", async () => {
  const state = { end: 100_000, complete: false };
  const feed = new LogFeed(server(state));
  await feed.open({ line: "1:50000" });
  expect([feed.lines[0]?.no, feed.lines.at(-1)?.no, feed.atEnd]).toEqual([49_900, 50_499, false]);
  state.end += 10;
  await feed.poll();
  expect(feed.lines).toHaveLength(600);
  await feed.loadNewer();
  expect(feed.lines.at(-1)?.no).toBe(50_999);
});

test("lines dropped at either end come again", async () => {
  const state = { end: MAX_LINES + 1000, complete: false };
  const feed = new LogFeed(server(state));
  await feed.open({ from: "head" });
  const whole = (): void =>
    expect(feed.lines.map((l) => l.no)).toEqual(Array.from(feed.lines, (_, i) => (feed.lines[0]?.no ?? 0) + i));
  while (!feed.atEnd) await feed.loadNewer();
  expect(feed.lines).toHaveLength(MAX_LINES);
  whole();
  while (feed.lines[0]?.no !== 0) expect(await feed.loadOlder()).toBeGreaterThan(0);
  expect([feed.atEnd, feed.lines.length]).toEqual([false, MAX_LINES]);
  whole();
  while (!feed.atEnd) await feed.loadNewer();
  expect(feed.lines.at(-1)?.no).toBe(state.end - 1);
  whole();
});

test("a place asked for last counts, however the answers come", async () => {
  const state = { end: 1000, complete: false };
  const serve = server(state);
  let release = (): void => {};
  const feed = new LogFeed(async (ask) => {
    if (ask.from === "tail")
      await new Promise<void>((done) => {
        release = done;
      });
    return serve(ask);
  });
  const first = feed.open({ from: "tail" });
  await feed.open({ line: "1:10" });
  release();
  await first;
  expect(feed.lines[0]?.no).toBe(0);
  expect(feed.lines.at(-1)?.no).toBe(509);
});

/** A log of 10,000 lines, of which each answer searches 1,000 more; the lines that match are given. */
function slowSearch(matches: readonly number[], fails = false) {
  const asked: (string | undefined)[] = [];
  const fetchPage = async (ask: LogAsk): Promise<LogPage> => {
    asked.push(ask.cursor);
    if (fails && asked.length > 1) throw new Error("no server");
    const to = ask.cursor ? Number(ask.cursor.slice(1)) : 10_000;
    const from = to - 1000;
    return {
      lines: matches.filter((no) => no >= from && no < to).map(line),
      older: from > 0 ? `o${from}` : null,
      newer: "n10000",
      at_end: true,
      complete: true,
      num_lines: 10_000,
      truncated_streams: [],
      search_stopped: from > 0,
      searched: { num_lines: 1000, num_bytes: 1000, left_lines: from, left_bytes: from },
    };
  };
  return { asked, feed: new LogFeed(fetchPage) };
}

test("a search goes on by itself through older lines", async () => {
  const { feed } = slowSearch([12, 9500]);
  await feed.poll();
  expect(feed.lines.map((one) => one.no)).toEqual([9500]);
  await feed.searchOn();
  expect(feed.lines.map((one) => one.no)).toEqual([12, 9500]);
  expect(feed.searched).toEqual({ numLines: 10_000, leftLines: 0 });
  expect([feed.searching, feed.searchStopped]).toEqual([false, false]);
});

test("it stops when its time is up or the server fails, and can go on", async () => {
  const { asked, feed } = slowSearch([12]);
  await feed.poll();
  await feed.searchOn(0);
  expect(asked).toHaveLength(1);
  expect(feed.searchStopped).toBe(true);
  await feed.searchOn();
  expect(feed.lines).toHaveLength(1);

  const broken = slowSearch([], true);
  await broken.feed.poll();
  await broken.feed.searchOn();
  expect(broken.asked).toHaveLength(2);
  expect(broken.feed.error?.message).toBe("no server");
});
