import { expect, test } from "vitest";

import { lineKey, type LogLine } from "./logFeed";
import { rowsOf, SAME_WITHIN_MS } from "./logRows";

let no = 0;
const line = (rank: number, text: string, more: Partial<LogLine> = {}): LogLine => ({
  trial_id: 1,
  trial_no: 1,
  stream_id: rank + 1,
  rank,
  member: "",
  local_rank: rank,
  node_name: "n",
  attempt_no: 1,
  stream: "stdout",
  no: no++,
  time_ms: no,
  text,
  level: null,
  cut: false,
  partial: false,
  ...more,
});
const none = new Set<string>();
const texts = (lines: LogLine[]) =>
  rowsOf(lines, true, none).rows.map(({ line: one, same }) => `${one.text}×${same.length}`);
const ranksInOrder = (lines: LogLine[]): Map<number, string[]> => {
  const out = new Map<number, string[]>();
  for (const { same } of rowsOf(lines, true, none).rows)
    for (const one of same) out.set(one.rank, [...(out.get(one.rank) ?? []), one.text]);
  return out;
};

test("what ranks have in common is one row, wherever it came between their other lines", () => {
  expect(
    texts([
      line(0, "start"),
      line(1, "start"),
      line(0, "loss 1"),
      line(2, "start"),
      line(1, "loss 2"),
      line(2, "loss 3"),
    ]),
  ).toEqual(["start×3", "loss 1×1", "loss 2×1", "loss 3×1"]);
});

test("a rank that writes a line twice has it twice", () => {
  expect(texts([line(0, "step"), line(0, "step"), line(1, "step"), line(1, "step")])).toEqual([
    "step×1",
    "step×2",
    "step×1",
  ]);
});

test("no rank's lines change places", () => {
  const words = ["a", "b", "c"];
  let state = 1;
  const next = (): number => (state = (state * 48_271) % 2_147_483_647);
  for (let round = 0; round < 50; round += 1) {
    const lines = Array.from({ length: 40 }, () => line(next() % 4, words[next() % 3] as string));
    const written = new Map<number, string[]>();
    for (const one of lines) written.set(one.rank, [...(written.get(one.rank) ?? []), one.text]);
    expect(ranksInOrder(lines)).toEqual(written);
    const { rows, rowOf, numHidden } = rowsOf(lines, true, none);
    expect(rows.length + numHidden).toBe(40);
    for (const one of lines) expect(rows[rowOf(lineKey(one))]?.same).toContain(one);
  }
});

test("another stream, attempt or trial, much later, or unfinished is another line", () => {
  const first = line(0, "x");
  for (const other of [
    { stream: "stderr" as const },
    { attempt_no: 2 },
    { trial_id: 2 },
    { time_ms: first.time_ms + SAME_WITHIN_MS + 1 },
    { partial: true },
  ])
    expect(texts([first, line(1, "x", other)])).toEqual(["x×1", "x×1"]);
  expect(rowsOf([first, line(1, "x")], false, none).rows).toHaveLength(2);
});

test("opened, or asked for one of them, it shows all, and each line knows its row", () => {
  const lines = [line(0, "x"), line(1, "x"), line(2, "x"), line(0, "y")];
  const key = (at: number): string => `${lines[at]?.stream_id}:${lines[at]?.no}`;
  const closed = rowsOf(lines, true, none, key(0));
  expect([closed.rows.length, closed.rowOf(key(2)), closed.rowOf(key(3)), closed.numHidden]).toEqual([2, 0, 1, 2]);
  for (const open of [rowsOf(lines, true, new Set([key(0)])), rowsOf(lines, true, none, key(2))]) {
    expect(open.rows.map((row) => [row.line.rank, row.isOpen, row.isOneOf])).toEqual([
      [0, true, false],
      [1, false, true],
      [2, false, true],
      [0, false, false],
    ]);
    expect([open.rowOf(key(2)), open.numHidden]).toEqual([2, 0]);
  }
});

test("rows that stay as they were are the same objects when lines come before them", () => {
  const lines = [line(0, "x"), line(1, "x"), line(0, "y"), line(0, "z")];
  const [, ...before] = rowsOf(lines, true, none).rows;
  const after = rowsOf([line(1, "w"), ...lines, line(1, "z")], true, none).rows;
  expect(after[2]).toBe(before[0]);
  expect(after[3]?.same).toHaveLength(2);
  expect(before[1]?.same).toHaveLength(1);
});
