// @vitest-environment node
import { expect, test, vi } from "vitest";

import { askAhead, askedAhead } from "./ahead";

test("an answer that was asked for ahead is taken once, by the same question", async () => {
  const ask = vi.fn(async () => "ahead");
  askAhead("a", ask);
  askAhead("a", ask);
  expect(ask).toHaveBeenCalledTimes(1);
  expect(await askedAhead("b", async () => "other")).toBe("other");
  expect(await askedAhead("a", async () => "late")).toBe("ahead");
  expect(await askedAhead("a", async () => "again")).toBe("again");
});

test("one that failed, or that nobody came for, is asked again", async () => {
  vi.useFakeTimers();
  askAhead("failed", async () => Promise.reject(new Error("gone")));
  expect(await askedAhead("failed", async () => "again")).toBe("again");
  askAhead("old", async () => "old");
  await vi.advanceTimersByTimeAsync(11_000);
  expect(await askedAhead("old", async () => "new")).toBe("new");
  vi.useRealTimers();
});
