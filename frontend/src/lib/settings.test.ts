// @vitest-environment node
import { expect, test } from "vitest";

import { settingPairs, settingsOf } from "./settings";

const config = { name: "a", resources: { slots: 2, pool: "default" }, labels: {}, entrypoint: ["train.py", "--lr"] };
const origins = { name: "document", "resources.slots": "override", "resources.pool": "default", labels: "default" };

test("what somebody wrote comes before the defaults", () => {
  expect(settingsOf(config, origins).map(({ path, text, isDefault }) => [path, text, isDefault])).toEqual([
    ["name", "a", false],
    ["resources.slots", "2", false],
    ["entrypoint", '["train.py","--lr"]', false],
    ["resources.pool", "default", true],
    ["labels", "{}", true],
  ]);
});

test("a search looks at paths and values", () => {
  expect(settingsOf(config, origins, " Slots").map(({ path }) => path)).toEqual(["resources.slots"]);
  expect(settingsOf(config, origins, "--lr").map(({ path }) => path)).toEqual(["entrypoint"]);
  expect(settingsOf(config, origins, "nothing")).toEqual([]);
});

test("a difference has both values, or none where one lacks the setting", () => {
  expect(settingPairs(config, { ...config, resources: { slots: 4 }, seed: 1 })).toEqual([
    { path: "resources.slots", here: "2", there: "4" },
    { path: "resources.pool", here: "default", there: "" },
    { path: "seed", here: "", there: "1" },
  ]);
});
