// @vitest-environment node
import { expect, test, vi } from "vitest";

import { type Ask, type SeriesReply, SeriesStore } from "./SeriesStore";

function reply(from: number, to: number, extra: Partial<SeriesReply> = {}): SeriesReply {
  const step = Array.from({ length: to - from + 1 }, (_, i) => from + i);
  return {
    trial_id: 1,
    attempt_no: 1,
    truncated: false,
    num_matching: 1,
    series: [
      {
        name: "train/loss",
        rank: 0,
        attempts: [{ no: 1, first_step: 1 }],
        raw: true,
        bucket_steps: 1,
        num_points: step.length,
        downsampled: false,
        step,
        time_ms: step,
        min: step,
        max: step,
        mean: step,
        last: step,
        count: step.map(() => 1),
      },
    ],
    ...extra,
  };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 60));

test("a first read is whole, a refresh reads only the tail", async () => {
  const asks: Ask[] = [];
  let last = 10;
  const store = new SeriesStore(async (ask) => {
    asks.push(ask);
    return reply(ask.from ?? 1, last);
  });
  store.want("train/loss");
  await settle();
  expect(asks[0]?.from).toBeUndefined();
  last = 13;
  await store.refresh();
  expect(asks[1]?.from).toBe(10);
  const [columns] = store.get("train/loss");
  expect([...(columns?.step ?? [])]).toEqual(Array.from({ length: 13 }, (_, i) => i + 1));
  expect(columns?.numPoints).toBe(13);
  store.dispose();
});

test("a curve with which a new attempt goes on is read again whole: it may hide points", async () => {
  const asks: Ask[] = [];
  let [attempt, last] = [1, 10];
  const store = new SeriesStore(async (ask) => {
    asks.push(ask);
    const answer = reply(ask.from ?? 1, last, { attempt_no: attempt });
    const attempts = [{ no: 1, first_step: 1 }, ...(last < 10 ? [{ no: 2, first_step: 5 }] : [])];
    return { ...answer, series: answer.series.map((one) => ({ ...one, attempts })) };
  });
  store.want("train/loss");
  await settle();
  attempt = 2; // but it has reported nothing yet
  await store.refresh();
  expect(asks.at(-1)?.from).toBe(10);
  expect(store.restarts(["train/loss"])).toEqual([]);
  last = 6;
  await store.refresh();
  expect(asks.at(-1)?.from).toBeUndefined();
  expect([...(store.get("train/loss")[0]?.step ?? [])]).toEqual([1, 2, 3, 4, 5, 6]);
  expect(store.restarts(["train/loss"])).toEqual([5]);
  expect(store.restarts(["val/loss"])).toEqual([]);
  store.dispose();
});

test("only what is wanted is asked for, in one request", async () => {
  const asks: Ask[] = [];
  const store = new SeriesStore(async (ask) => {
    asks.push(ask);
    return reply(1, 2);
  });
  const leave = store.want("train/loss");
  store.want("val/loss");
  await settle();
  expect(asks).toHaveLength(1);
  expect(asks[0]?.names).toEqual(["train/loss", "val/loss"]);
  leave();
  await store.refresh();
  expect(asks.at(-1)?.names).toEqual(["val/loss"]);
  store.dispose();
});

test("what is on its way is not asked for again, nor is what is there when something else is wanted", async () => {
  const asks: Ask[] = [];
  const answers: (() => void)[] = [];
  const store = new SeriesStore((ask) => {
    asks.push(ask);
    return new Promise<SeriesReply>((resolve) => answers.push(() => resolve(reply(1, 2))));
  });
  store.want("train/loss");
  await settle();
  store.want("val/loss");
  await settle();
  for (const answer of answers) answer();
  await settle();
  store.want("lr");
  await settle();
  expect(asks.map((ask) => ask.names)).toEqual([["train/loss"], ["val/loss"], ["lr"]]);
  store.dispose();
});

test("a first answer is told at once, and only to who draws it", async () => {
  vi.useFakeTimers();
  const store = new SeriesStore(async (ask) =>
    reply(1, 2, { series: ask.names.flatMap((name) => reply(1, 2).series.map((one) => ({ ...one, name }))) }),
  );
  const told: string[] = [];
  store.subscribe(() => told.push("a"), ["a"]);
  store.subscribe(() => told.push("b"), ["b"]);
  store.subscribe(() => told.push("any"));
  store.want("a");
  await vi.advanceTimersByTimeAsync(100);
  expect(told).toEqual(["a", "any"]);
  store.want("b");
  await vi.advanceTimersByTimeAsync(100);
  expect(told).toEqual(["a", "any", "b", "any"]);
  store.dispose();
  vi.useRealTimers();
});

test("an answer for an old window is dropped", async () => {
  const answers: ((r: SeriesReply) => void)[] = [];
  const store = new SeriesStore(() => new Promise<SeriesReply>((resolve) => answers.push(resolve)));
  store.want("train/loss");
  await settle();
  store.configure({ from: 100, to: 200 }, [0]);
  answers[1]?.(reply(100, 200));
  await settle();
  answers[0]?.(reply(1, 5));
  await settle();
  expect(store.get("train/loss")[0]?.step[0]).toBe(100);
  store.dispose();
});

test("a closed window is not read again", async () => {
  const fetch = vi.fn(async (ask: Ask) => reply(ask.from ?? 1, 300));
  const store = new SeriesStore(fetch);
  store.configure({ from: 100, to: 200 }, [0]);
  store.want("train/loss");
  await settle();
  const before = fetch.mock.calls.length;
  await store.refresh();
  expect(fetch.mock.calls.length).toBe(before);
  store.dispose();
});

test("a failure keeps the points and is told", async () => {
  let fail = false;
  const store = new SeriesStore(async () => {
    if (fail) throw new Error("gone");
    return reply(1, 3);
  });
  store.want("train/loss");
  await settle();
  fail = true;
  await store.refresh();
  expect(store.error?.message).toBe("gone");
  expect(store.get("train/loss")[0]?.numPoints).toBe(3);
  store.dispose();
});

test("a window of time becomes one of steps, once the times are known", async () => {
  const asks: Ask[] = [];
  const store = new SeriesStore(async (ask) => {
    asks.push(ask);
    return reply(ask.from ?? 1, ask.to ?? 100);
  });
  store.configureTime(20, 30, [0]);
  store.want("train/loss");
  await vi.waitFor(() => expect(asks.at(-1)).toMatchObject({ from: 20, to: 31 }));
  expect(asks[0]?.from).toBeUndefined();
  store.configureTime(undefined, undefined, [0]);
  await vi.waitFor(() => expect(asks.at(-1)?.from).toBeUndefined());
  store.configureTime(50, 60, [0]);
  await vi.waitFor(() => expect(asks.at(-1)).toMatchObject({ from: 50, to: 61 }));
  store.dispose();
});
