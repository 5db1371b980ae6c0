import { MantineProvider } from "@mantine/core";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { client } from "../../api/client";
import type { Diagnosis } from "../../api/queries";
import { showTexts } from "../../testing/texts";
import { CancelDialog } from "./CancelDialog";

const asked: string[] = [];
const server = {
  onRequest: ({ request }: { request: Request }) => {
    asked.push(new URL(request.url).pathname);
    return Response.json({}, { status: 202 });
  },
};
beforeEach(() => client.use(server));
afterEach(() => {
  client.eject(server);
  cleanup();
  asked.length = 0;
});

const probes = ["COMPLETED", "FAILED", "RUNNING", null].map((state) => ({ probe: "as_is", state }));
const diagnosis = { id: 7, probes } as unknown as Diagnosis;

test("a diagnosis is canceled only once it was said what is lost", async () => {
  await showTexts();
  const [onCanceled, onClose] = [vi.fn(async () => {}), vi.fn()];
  render(
    <MantineProvider withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={new QueryClient()}>
        <CancelDialog diagnosis={diagnosis} onCanceled={onCanceled} onClose={onClose} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  expect(screen.getByTestId("cancel-text")).toHaveTextContent("ends without a result: 2 of 4 probes have ended");
  fireEvent.click(screen.getByRole("button", { name: "Keep running" }));
  expect(onClose).toHaveBeenCalledTimes(1);
  expect(asked).toEqual([]);
  fireEvent.click(screen.getByRole("button", { name: "Cancel diagnosis" }));
  await waitFor(() => expect(onCanceled).toHaveBeenCalledTimes(1));
  expect(asked).toEqual(["/api/v1/diagnoses/7:cancel"]);
  expect(onClose).toHaveBeenCalledTimes(2);
});
