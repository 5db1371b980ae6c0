import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook } from "@testing-library/react";
import { expect, test, vi } from "vitest";

import { type TrialDetail, trialMetrics } from "../../api/queries";
import { BEGINS_MS, useHome } from "./useHome";

const trial = {
  id: 5,
  state: "RUNNING",
  attempts: [{ no: 1 }],
  config: { entrypoint: ["train.py"], trainer: null },
  unmanaged: null,
} as unknown as TrialDetail;

/** The tab of a page that has been open for so long when the first metric comes. */
async function homeAfter(ms: number, of: TrialDetail): Promise<(string | undefined)[]> {
  vi.useFakeTimers();
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  const { queryKey } = trialMetrics(of.id);
  client.setQueryData(queryKey, { names: [] as string[], ranks: [] as number[] } as never);
  const { result } = renderHook(() => useHome(of), {
    wrapper: ({ children }) => <QueryClientProvider client={client}>{children}</QueryClientProvider>,
  });
  const seen = [result.current];
  await act(() => vi.advanceTimersByTimeAsync(ms));
  await act(async () => {
    client.setQueryData(queryKey, { names: ["train/loss"], ranks: [0] } as never);
    await vi.advanceTimersByTimeAsync(1); // it is told in a task of its own
  });
  seen.push(result.current);
  vi.useRealTimers();
  return seen;
}

test("a page that is opened as a script begins shows its first metric, and later stays on the log", async () => {
  expect(await homeAfter(BEGINS_MS - 100, trial)).toEqual(["logs", "metrics"]);
  expect(await homeAfter(BEGINS_MS + 1, trial)).toEqual(["logs", "logs"]);
  expect(await homeAfter(0, { ...trial, state: "COMPLETED" })).toEqual(["logs", "logs"]);
});
