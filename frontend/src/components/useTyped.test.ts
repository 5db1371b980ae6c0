import { act, renderHook } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { useTyped } from "./useTyped";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());
const pass = (ms: number): Promise<void> => act(async () => void (await vi.advanceTimersByTimeAsync(ms)));

test("typed text goes into the address once it has settled, and follows the address", async () => {
  const write = vi.fn();
  const { result, rerender } = renderHook(({ q }: { q: string | undefined }) => useTyped(q, 250, write), {
    initialProps: { q: undefined as string | undefined },
  });
  act(() => result.current[1]("a"));
  await pass(100);
  act(() => result.current[1]("ab"));
  await pass(249);
  expect(write).not.toHaveBeenCalled();
  await pass(1);
  expect(write.mock.calls).toEqual([["ab"]]);
  act(() => result.current[1]("abc")); // before the address is there
  rerender({ q: "ab" });
  expect(result.current[0]).toBe("abc");
  await pass(250);
  rerender({ q: "abc" });
  rerender({ q: "ab" }); // the back button
  expect(result.current[0]).toBe("ab");
  await pass(300);
  rerender({ q: undefined }); // a link to the page without filters
  expect(result.current[0]).toBe("");
  await pass(300);
  expect(write.mock.calls).toEqual([["ab"], ["abc"]]);
});
