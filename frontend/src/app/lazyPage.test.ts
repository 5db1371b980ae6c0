import { expect, test, vi } from "vitest";

import { type Early, lazyPage, PageLoadError, preloadPages } from "./lazyPage";

const Hello = (): null => null;

test("a page that could not be fetched throws when shown, and is fetched again by the next visit", async () => {
  const load = vi.fn(() => Promise.reject<{ Hello: typeof Hello }>(new Error("no network")));
  const page = lazyPage(load, "Hello");
  await page.preload();
  expect(() => page()).toThrow(PageLoadError);
  load.mockImplementation(() => Promise.resolve({ Hello }));
  await page.preload();
  expect(page().type).toBe(Hello);
  await page.preload();
  expect(load).toHaveBeenCalledTimes(2);
});

test("every page is fetched beforehand, and one that fails keeps none back", async () => {
  const broken = vi.fn(() => Promise.reject<{ Hello: typeof Hello }>(new Error("gone")));
  const good = vi.fn(() => Promise.resolve({ Hello }));
  lazyPage(broken, "Hello");
  const page = lazyPage(good, "Hello");
  await preloadPages();
  expect(broken).toHaveBeenCalled();
  expect(page().type).toBe(Hello);
});

test("what a page shows first is asked for when its code is there, before it is drawn", async () => {
  const order: string[] = [];
  const early = { params: {}, search: {} } as Early;
  const load = (): Promise<{ Hello: typeof Hello; askEarly: (asked: Early) => Promise<void> }> =>
    Promise.resolve({
      Hello,
      askEarly: async (asked) => void order.push(asked === early ? "asked" : "asked otherwise"),
    });
  const page = lazyPage(load, "Hello");
  const first = page.preload(early).then(() => order.push("drawn"));
  await page.preload();
  await first;
  expect(order).toEqual(["asked", "drawn"]);
  await page.preload();
  await page.preload(early);
  expect(order).toEqual(["asked", "drawn", "asked"]);
});
