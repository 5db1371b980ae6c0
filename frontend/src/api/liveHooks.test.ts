import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";

import { refetch } from "./liveHooks";

test("a hint during a page's first fetch makes it fetch again afterwards", async () => {
  const queryClient = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const answers: ((value: string) => void)[] = [];
  const queryFn = vi.fn(() => new Promise<string>((resolve) => answers.push(resolve)));
  const end = new QueryObserver(queryClient, { queryKey: ["trial", 1], queryFn }).subscribe(() => undefined);
  expect(queryFn).toHaveBeenCalledTimes(1);
  const done = refetch(queryClient, ["trial"]);
  expect(queryFn).toHaveBeenCalledTimes(1); // two at once could be answered in the wrong order
  answers[0]?.("before the change");
  await vi.waitFor(() => expect(queryFn).toHaveBeenCalledTimes(2));
  answers[1]?.("after the change");
  await done;
  expect(queryClient.getQueryData(["trial", 1])).toBe("after the change");
  end();
});

test("a hint refetches what is shown and marks the rest as old", async () => {
  const queryClient = new QueryClient();
  queryClient.setQueryData(["trial", 2], "hidden");
  const queryFn = vi.fn(() => Promise.resolve("shown"));
  const end = new QueryObserver(queryClient, {
    queryKey: ["trial", 1],
    queryFn,
    initialData: "old",
    staleTime: Infinity,
  }).subscribe(() => undefined);
  expect(queryFn).not.toHaveBeenCalled();
  await refetch(queryClient, ["trial"]);
  expect(queryFn).toHaveBeenCalledTimes(1);
  expect(queryClient.getQueryState(["trial", 2])?.isInvalidated).toBe(true);
  end();
});
