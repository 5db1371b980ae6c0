import { expect, test, vi } from "vitest";

import { subscribeAll } from "./perFrame";

test("a listener of many is called once per frame, and not after its end", () => {
  const frames: (() => void)[] = [];
  vi.stubGlobal("requestAnimationFrame", (call: () => void) => frames.push(call));
  vi.stubGlobal("cancelAnimationFrame", (no: number) => {
    frames[no - 1] = () => undefined;
  });
  const told: (() => void)[] = [];
  const one = {
    subscribe: (listener: () => void) => {
      told.push(listener);
      return () => undefined;
    },
  };
  let calls = 0;
  const end = subscribeAll([one, one, one], () => {
    calls += 1;
  });
  for (const tell of told) tell();
  expect([calls, frames.length]).toEqual([0, 1]);
  frames[0]?.();
  expect(calls).toBe(1);
  told[0]?.();
  end();
  frames[1]?.();
  expect([calls, frames.length]).toEqual([1, 2]);
  vi.unstubAllGlobals();
});
