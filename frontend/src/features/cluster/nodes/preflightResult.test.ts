// @vitest-environment node
import { expect, test } from "vitest";

import type { Preflight } from "../../../api/queries";
import { bytesPerS, failures, linkBetween } from "./preflightResult";

const link = (from: string, to: string, message = ""): Preflight["links"][number] => ({
  from_node: from,
  to_node: to,
  message,
  round_trip_ms: message ? null : 0.5,
  allreduce_ms: null,
});
const preflight = (state: Preflight["state"]): Preflight =>
  ({
    state,
    links: [link("a", "b", "refused"), link("b", "a")],
    nodes: [
      { node_name: "a", problems: [] },
      { node_name: "b", problems: ["its disk is full"] },
    ],
  }) as unknown as Preflight;

test("what failed is named by the pair and by the node, and only of one that failed", () => {
  expect(failures(preflight("failed"))).toEqual(["a → b: refused", "b: its disk is full"]);
  expect(failures(preflight("passed"))).toEqual([]);
});

test("each direction of a pair is looked up by itself", () => {
  expect(linkBetween(preflight("failed"), "a", "b")?.message).toBe("refused");
  expect(linkBetween(preflight("failed"), "b", "a")?.message).toBe("");
  expect(linkBetween(preflight("failed"), "a", "a")).toBeUndefined();
});

test("1 MiB in 2 ms are 500 MiB a second", () => {
  expect(bytesPerS(2)).toBe(500 * 2 ** 20);
});
