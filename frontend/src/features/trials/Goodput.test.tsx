import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterContextProvider } from "@tanstack/react-router";
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import { type Me, me, type TrialDetail, trialGoodput, type TrialGoodput } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { Goodput } from "./Goodput";

beforeAll(() => showTexts("en"));
afterEach(cleanup);

const found: TrialGoodput = {
  trial_id: 4,
  allocated_s: 7200,
  queued_s: 15,
  classes: { productive: 3600, repeated: 2400, starting: 1200 },
  parts: { computation: 3000 },
  headline: "50% of the slot time moved no training forward.",
  headline_parts: [],
  efficiency: {
    slots: 4,
    memory_bytes: null,
    used: [{ name: "gpu_pct" as const, median: 30, peak: 95, num_samples: 40 }],
    lost: "repeated",
    lost_share: 0.22,
    advice: [{ text: "Try fewer slots.", parts: [] }],
  },
  save_interval: {
    steps: 120,
    interval_s: 130,
    lost_share: 0.02,
    lost_share_now: 0.31,
    failure_every_s: 7200,
    reason: "A checkpoint every 120 steps would lose less.",
    reason_parts: [],
  },
  continuation: {
    is_proven: false,
    verdict: "80 samples were used more than once.",
    verdict_parts: [],
    curve: "",
    curve_parts: [],
    num_samples: 300,
    num_epochs: 1,
    num_used: 300,
    num_repeated: 80,
    num_skipped: 0,
    num_unconfirmed: 0,
    num_padded: 0,
    num_left_out: 4,
    num_attempts: 2,
    num_ranks: [2, 1],
    stretches: [{ kind: "repeated", attempt_no: 2, epoch: 0, start: 0, stop: 60 }],
  },
  attempts: [
    {
      no: 1,
      queued_s: 10,
      allocated_s: 4800,
      classes: { productive: 1200, repeated: 2400, starting: 1200 },
      parts: {},
      kept_step: 80,
      until: "2026-03-02T09:00:00Z",
    },
    {
      no: 2,
      queued_s: 5,
      allocated_s: 2400,
      classes: { productive: 2400 },
      parts: {},
      kept_step: null,
      until: "2026-03-02T10:00:00Z",
    },
  ],
};

function show(data: TrialGoodput, more: { role?: Me["role"]; trainer?: object | null } = {}) {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity, retry: false } } });
  const { role = "member", trainer = { model: "mlp" } } = more;
  client.setQueryData(me.queryKey, { username: "ada", role } as Me);
  client.setQueryData(trialGoodput(4, false).queryKey, data);
  const trial = { id: 4, experiment_id: 3, state: "COMPLETED", config: { trainer } } as unknown as TrialDetail;
  const router = createRouter({ routeTree: createRootRoute(), history: createMemoryHistory() });
  render(
    <QueryClientProvider client={client}>
      <MantineProvider withCssVariables={false} withGlobalClasses={false}>
        <RouterContextProvider router={router}>
          <Goodput trial={trial} />
        </RouterContextProvider>
      </MantineProvider>
    </QueryClientProvider>,
  );
}

test("a run is one bar in a fixed order, and each attempt says what of it survived", () => {
  show(found);
  expect(screen.getByTestId("goodput-headline")).toHaveTextContent("50% of the slot time");
  const whole = within(screen.getByTestId("goodput"));
  const pieces = within(whole.getByRole("list", { name: "Where the slot time went" })).getAllByRole("listitem");
  expect(pieces.map(({ textContent }) => textContent)).toEqual([
    "Productive: 50% · 1 slot-hours",
    "Starting: 17% · 0.33 slot-hours",
    "Repeated: 33% · 0.67 slot-hours",
  ]);
  expect(screen.getByTestId("goodput")).toHaveTextContent("15 s in the queue");
  expect(screen.getByTestId("goodput-parts")).toHaveTextContent("Other or unknown17%");
  const attempts = screen.getByTestId("goodput-attempts");
  expect(attempts).toHaveTextContent("1.3 slot-hours · kept to step 80 · 10 s in the queue");
  expect(attempts).toHaveTextContent("0.67 slot-hours · all steps kept");
  expect(within(attempts).getByRole("list", { name: "Attempt 2" })).toHaveStyle({ width: "50%" });
});

test("of an attempt whose steps nobody used, or of which nothing is known, that is said", () => {
  const [first, second] = found.attempts as [TrialGoodput["attempts"][number], TrialGoodput["attempts"][number]];
  const attempts: TrialGoodput["attempts"] = [
    { ...first, kept_step: 0 },
    { ...first, no: 2, kept_step: null, classes: { abandoned: 10 } },
    { ...second, no: 3, classes: { unmeasured: 10 } },
    { ...second, no: 4, classes: { preparing: 10 } },
  ];
  show({ ...found, attempts });
  const shown = screen.getByTestId("goodput-attempts").textContent;
  for (const word of ["no steps kept", "its work was not used", "unknown which steps were kept", "no steps"])
    expect(shown).toContain(word);
});

test("the better interval is one click away from a fork that saves so often", () => {
  show(found);
  const advice = screen.getByTestId("goodput-interval");
  expect(advice).toHaveTextContent("Best interval120 steps (2 min 10 s)");
  expect(advice).toHaveTextContent("Time lost now31%");
  const link = new URL(screen.getByTestId("fork-interval").getAttribute("href") ?? "", "http://muster");
  expect(link.pathname).toBe("/submit");
  expect(Object.fromEntries(link.searchParams)).toEqual({ from: "3", set: 'checkpoints.every={"steps":120}' });
});

test("viewers are offered no fork, and a script is told to save by itself", () => {
  show(found, { role: "viewer" });
  expect(screen.queryByTestId("fork-interval")).toBeNull();
  cleanup();
  show(found, { trainer: null });
  expect(screen.queryByTestId("fork-interval")).toBeNull();
  expect(screen.getByTestId("goodput-interval")).toHaveTextContent("Your script decides when to save");
});

test("a trial that has held no slots says so", () => {
  show({ ...found, allocated_s: 0, classes: {}, parts: {}, headline: null, save_interval: null, attempts: [] });
  expect(screen.getByTestId("empty")).toHaveTextContent("has not held any slots");
});
