import { afterEach, expect, test, vi } from "vitest";

import { openInPerfetto, PERFETTO, type Trace } from "./perfetto";

const TRACE: Trace = { title: "rank 0", fileName: "trace.json.gz", buffer: new ArrayBuffer(8) };
const load = () => Promise.resolve(TRACE);

afterEach(() => vi.restoreAllMocks());

/** A tab whose page answers as `origin` once it has been asked so often; never by default. */
function tab(origin = "", afterPings = 1) {
  const told: unknown[] = [];
  const opened = {
    postMessage: (message: unknown, target: string) => {
      expect(target).toBe(PERFETTO);
      told.push(message);
      if (origin && told.length === afterPings)
        window.dispatchEvent(
          new MessageEvent("message", { data: "PONG", origin, source: opened as unknown as Window }),
        );
    },
  };
  vi.spyOn(window, "open").mockReturnValue(opened as unknown as Window);
  return told;
}

test("a trace is handed over once the page has answered", async () => {
  const told = tab(PERFETTO, 2);
  await openInPerfetto(load);
  expect(told).toEqual(["PING", "PING", { perfetto: TRACE }]);
});

test("a page of somebody else gets nothing", async () => {
  const told = tab("https://elsewhere.example");
  await expect(openInPerfetto(load, 250)).rejects.toMatchObject({ kind: "silent" });
  expect(told).not.toContainEqual({ perfetto: TRACE });
});

test("a browser that opens no tab is told apart", async () => {
  vi.spyOn(window, "open").mockReturnValue(null);
  await expect(openInPerfetto(load)).rejects.toMatchObject({ kind: "blocked" });
});
