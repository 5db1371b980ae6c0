/** Loads and removes the demo's experiments with the requests that everybody has. */
import type { Example } from "virtual:demo";

import { client, unwrap } from "../../api/client";

/** What marks them: these and no others are removed. */
export const DEMO_LABEL = "demo=dashboard";
const MAX = 50;
const ENDING_MS = 90_000;
const ASK_MS = 1000;
const ENDED = new Set(["COMPLETED", "FAILED", "CANCELED"]);

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

/** Submit an example, with its code where it has some. */
async function submitExample({ document, sha256, code }: Example, overrides: string[]) {
  if (sha256 !== null && code !== null)
    await unwrap(
      client.PUT("/api/v1/blobs/{sha256}", {
        params: { path: { sha256 } },
        body: bytesOf(code),
        bodySerializer: (body) => body as Uint8Array<ArrayBuffer>,
        headers: { "Content-Type": "application/gzip" },
      }),
    );
  return unwrap(client.POST("/api/v1/experiments", { body: { document, blob_sha256: sha256, overrides } }));
}

/** Submit each example. Stops at the first that fails. */
export async function loadDemo(): Promise<void> {
  const { examples } = await import("virtual:demo");
  for (const example of examples) await submitExample(example, [`labels.${DEMO_LABEL}`]);
}

/** Submit the first example, which trains the built-in classifier and needs no code. Returns the experiment. */
export async function runExample() {
  const { examples } = await import("virtual:demo");
  return submitExample(examples[0], []);
}

/** The demo's experiments that are there, archived ones among them. */
export const demoExperiments = async () =>
  (
    await unwrap(
      client.GET("/api/v1/experiments", {
        params: { query: { label: [DEMO_LABEL], archived: "include", limit: MAX } },
      }),
    )
  ).items;

async function bulk(action: "kill" | "delete", ids: number[]): Promise<void> {
  if (ids.length === 0) return;
  const body = { action, ids, keep_files: false, set_labels: {}, remove_labels: [] };
  const { digest } = await unwrap(client.POST("/api/v1/experiments:bulk-preview", { body }));
  const done = await unwrap(client.POST("/api/v1/experiments:bulk", { body: { ...body, digest } }));
  const refused = done.items.find((item) => item.outcome === "refused");
  if (refused) throw new Error(`${refused.name}: ${refused.message}`);
}

/** End what still runs of the demo and delete all of it, with its files. */
export async function removeDemo(): Promise<void> {
  const until = Date.now() + ENDING_MS;
  let all = await demoExperiments();
  await bulk(
    "kill",
    all.filter((item) => !ENDED.has(item.state)).map((item) => item.id),
  );
  while (all.some((item) => !ENDED.has(item.state)) && Date.now() < until) {
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    all = await demoExperiments();
  }
  await bulk(
    "delete",
    all.map((item) => item.id),
  );
}
