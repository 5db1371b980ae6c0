import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, test } from "vitest";

import type { Schemas } from "../../../api/client";
import { showTexts } from "../../../testing/texts";
import { ExportButton } from "./ExportButton";

beforeAll(() => showTexts("en"));
afterEach(cleanup);

const made: Schemas["ExportOut"] = {
  id: 4,
  checkpoint_id: 7,
  experiment_id: 1,
  trial_id: 2,
  trial_no: 1,
  step: 9,
  num_files: 0,
  file_name: "experiment-1-trial-1-step-9.safetensors",
  state: "done",
  message: "",
  waits_for: "",
  size_bytes: 2048,
  sha256: "aa",
  requested_by: "ada",
  requested_at: "2026-01-01T00:00:00Z",
  ended_at: "2026-01-01T00:00:01Z",
  expires_at: "2026-01-02T00:00:00Z",
};

const show = (last: Schemas["ExportOut"] | undefined, mayAsk = true) =>
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={new QueryClient()}>
        <ExportButton trialId={2} checkpointId={7} last={last} mayAsk={mayAsk} />
      </QueryClientProvider>
    </MantineProvider>,
  );

test("a file that is there is a link, also for those who may only look", () => {
  show(made, false);
  const link = screen.getByRole("link", { name: "Download" });
  expect(link).toHaveAttribute("href", "/api/v1/exports/4/file");
  expect(link).toHaveAttribute("download", made.file_name);
});

test("one that failed says why, and may be asked for again", () => {
  show({ ...made, state: "failed", message: "node-1: the checkpoint was deleted" });
  expect(screen.getByRole("alert")).toHaveTextContent("Export failed: node-1: the checkpoint was deleted");
  expect(screen.getByRole("button", { name: "Export" })).toBeEnabled();
});

test("while it is made nobody asks again, and without a right nothing is offered", () => {
  show({ ...made, state: "pending", waits_for: "node-1" });
  expect(screen.getByTestId("export-model")).toHaveAttribute("data-loading", "true");
  cleanup();
  show(undefined, false);
  expect(screen.queryByTestId("export-model")).toBeNull();
});
