import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import { type TrialDetail, type TrialPlan, trialPlan } from "../../../api/queries";
import { showTexts } from "../../../testing/texts";
import { Foreseen } from "./Foreseen";

beforeAll(() => showTexts("en"));
afterEach(cleanup);

const plan: TrialPlan = {
  trial_id: 7,
  known: true,
  is_pending: false,
  reason: "",
  reason_parts: [],
  strategy: "ddp",
  memory: null,
  measured_memory_bytes: null,
  measured_rss_bytes: null,
  bytes_per_step: 396_712,
  measured_bytes_per_step: 2_041_896,
  step_ms: null,
  measured_step_ms: 30,
  num_rows: 200,
  time_source: "No scaling report.",
  remarks: [{ about: "bytes", ratio: 0.194, text: "Nothing known explains the difference.", parts: [] }],
};

function show(found: TrialPlan) {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  client.setQueryData(trialPlan(7).queryKey, found);
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={client}>
        <Foreseen trial={{ id: 7 } as TrialDetail} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test("a figure far from the measured one is flagged in words", () => {
  show(plan);
  expect(screen.getByTestId("foreseen-remark-bytes")).toHaveTextContent("expected is 0.194 times measured.");
  expect(screen.getByTestId("foreseen-remark-bytes")).toHaveTextContent("Nothing known explains the difference.");
});

test("what is near needs no words", () => {
  show({ ...plan, bytes_per_step: 2_041_896, remarks: [] });
  expect(screen.getByTestId("foreseen")).toBeInTheDocument();
  expect(screen.queryByTestId("foreseen-remark-bytes")).toBeNull();
});

test("why nothing was expected is said, but not of a script", () => {
  show({ ...plan, known: false, reason: "Memory and bytes are unknown until a node joins." });
  expect(screen.getByTestId("foreseen-unknown")).toHaveTextContent("until a node joins");
  cleanup();
  show({ ...plan, known: false, strategy: "", reason: "A script." });
  expect(screen.queryByTestId("foreseen-unknown")).toBeNull();
});
