import { expect, test } from "vitest";

import { ALL_MAX, allPages, cutLists } from "./pages";

/** A list of so many numbers, 200 on a page. */
function list(length: number) {
  return async (cursor: string | undefined) => {
    const from = Number(cursor ?? 0);
    const items = Array.from({ length: Math.min(200, length - from) }, (_, i) => from + i);
    return { items, next: from + 200 < length ? String(from + 200) : null };
  };
}

test("a long list is loaded to its end", async () => {
  const { items, next } = await allPages("nodes", list(5_401));
  expect(items).toEqual(Array.from({ length: 5_401 }, (_, i) => i));
  expect(next).toBeNull();
  expect(cutLists.get()).toEqual([]);
});

test("a list that is longer than a page loads is said to be cut, until it is not any more", async () => {
  let told = 0;
  const stop = cutLists.subscribe(() => told++);
  const { items, next } = await allPages("ranks", list(ALL_MAX + 1));
  expect(items).toHaveLength(ALL_MAX);
  expect(next).not.toBeNull();
  expect(cutLists.get()).toEqual([{ name: "ranks", path: location.pathname }]);
  await allPages("ranks", list(ALL_MAX));
  expect(cutLists.get()).toEqual([]);
  expect(told).toBe(2);
  stop();
});
