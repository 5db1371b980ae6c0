import { expect, test } from "vitest";

import type { Node } from "../../../api/queries";
import { arrivals, firstJob, isForThisMachine, providerCommand, sshCommands, wayOf } from "./joining";

const node = (id: string, name: string): Node =>
  ({ id, name, pool: "lab", state: "ONLINE", slots: [{ slot_type: "cuda" }] }) as unknown as Node;

test("the commands name the pool, the machine and the server", () => {
  expect(sshCommands("ann@gpu1", "lab", "https://m.example/muster")).toBe(
    "muster login https://m.example/muster\nmuster node add ann@gpu1 --pool lab",
  );
  expect(providerCommand("slurm", "gpu", "https://m.example")).toMatch(
    /^muster pool create gpu --provider slurm .* --server-url https:\/\/m\.example$/,
  );
});

test("what somebody typed cannot become another command", () => {
  expect(sshCommands("x; rm -rf ~", "it's", "http://m")).toBe(
    "muster login http://m\nmuster node add 'x; rm -rf ~' --pool 'it'\\''s'",
  );
});

test("only nodes that came since the page was opened have arrived", () => {
  const all = [node("1", "old"), node("2", "new")];
  expect(arrivals(new Set(["1"]), all).map((one) => one.name)).toEqual(["new"]);
});

test("the first job runs on the new node alone, in its pool and on its kind of slot", () => {
  const { set } = firstJob(node("2", "gpu1"));
  expect(set).toBe('resources={"slots":1,"slot_type":"cuda","pool":"lab","allow_nodes":["gpu1"]}');
  expect(firstJob({ pool: "gpu" }).set).toBe('resources={"slots":1,"pool":"gpu"}');
});

test("an address of this machine alone is known as such, and an unknown way is ssh", () => {
  expect(["localhost", "127.0.0.1", "[::1]", "m.example"].map(isForThisMachine)).toEqual([true, true, true, false]);
  expect(wayOf("fax")).toBe("ssh");
});
