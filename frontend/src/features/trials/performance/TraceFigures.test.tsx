import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import { traceFigures, type TraceTimes } from "../../../api/queries";
import { showTexts } from "../../../testing/texts";
import { TraceFigures } from "./TraceFigures";

beforeAll(() => showTexts("en"));
afterEach(cleanup);

const times: TraceTimes = {
  span_us: 90_000,
  communication_us: 50_000,
  computation_us: 40_000,
  overlap_us: 10_000,
  exposed_us: 40_000,
  copy_us: 0,
  idle_us: 10_000,
};
const kind = {
  group: "world",
  kind: "all_reduce",
  count: 3,
  bytes: null,
  communication_us: 50_000,
  exposed_us: 40_000,
};

test("a window's figures, what could not be read, and who waited for whom", () => {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(traceFigures(7, 2).queryKey, {
    ranks: [{ ...times, rank: 0, device: "cpu" as const, steps: [{ ...times, step: 120 }], kinds: [kind] }],
    problems: [{ rank: 1, problem: "The trace is truncated." }],
    waiting: {
      collectives: 3,
      transfer_us: 20_000,
      ranks: [],

      pairs: [{ rank: 0, waits_for: 2, waiting_us: 30_000 }],
      bandwidths: [
        {
          group: "world",
          kind: "all_reduce",
          ranks: 2,
          collectives: 3,
          bytes: 3_000_000,
          transfer_us: 20_000,
          algorithm_bytes_per_s: 150e6,
          bus_bytes_per_s: null,
        },
      ],
    },
  });
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={client}>
        <TraceFigures trial={7} no={2} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const figures = screen.getByTestId("trace-figures");
  expect(figures).toHaveTextContent("Rank 0, step 120");
  expect(figures).toHaveTextContent("Exposed");
  expect(figures).toHaveTextContent(/40\sms/u);
  expect(screen.getByTestId("trace-kinds")).toHaveTextContent("all_reduce");
  expect(screen.getByText("Rank 1: The trace is truncated.")).toBeVisible();
  expect(screen.getByTestId("trace-waits")).toHaveTextContent(/Rank 0 waited 30\sms for rank 2/u);
  expect(screen.getByTestId("trace-bandwidths")).toHaveTextContent(/150\sMB\/s–/u);
  expect(screen.getByText(/no GPU activity/u)).toBeVisible();
});
