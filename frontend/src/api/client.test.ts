import { afterEach, expect, test, vi } from "vitest";

import { network, patientFetch } from "./client";

const patience = network.patienceMs;

afterEach(() => {
  network.patienceMs = patience;
  vi.unstubAllGlobals();
});

/** A server that accepts requests and answers none. */
function mute(): void {
  vi.stubGlobal(
    "fetch",
    (_: Request, init?: RequestInit) =>
      new Promise((_resolve, reject) =>
        init?.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error)),
      ),
  );
}

test("what only reads is given up when no answer begins", async () => {
  mute();
  network.patienceMs = () => 10;
  await expect(patientFetch(new Request("http://localhost/x"))).rejects.toMatchObject({ name: "TimeoutError" });
});

test("a request that is not needed any more ends at once, and is no failure to reach the server", async () => {
  mute();
  const given = new AbortController();
  const answer = patientFetch(new Request("http://localhost/x", { signal: given.signal }));
  given.abort();
  await expect(answer).rejects.toMatchObject({ name: "AbortError" });
});

test("what changes something is waited for", async () => {
  mute();
  network.patienceMs = () => 10;
  const answer = patientFetch(new Request("http://localhost/x", { method: "POST" }));
  const first = await Promise.race([answer, new Promise((resolve) => setTimeout(() => resolve("waits"), 50))]);
  expect(first).toBe("waits");
});
