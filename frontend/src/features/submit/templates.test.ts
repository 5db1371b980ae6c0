import { expect, test } from "vitest";

import { submit } from "../../i18n/en/submit";
import { FIRST, GROUPS, TEMPLATES, templateOf } from "./templates";

test("every example with a document is offered once, under a title", () => {
  const offered: string[] = Object.values(GROUPS).flat();
  expect([...offered].toSorted()).toEqual([...TEMPLATES.keys()].toSorted());
  expect(Object.keys(submit.submit.templates).toSorted()).toEqual([...offered].toSorted());
  expect(templateOf(FIRST)?.document).toContain("model: cnn");
});

test("a script of an example comes with it", () => {
  expect(templateOf("sdk-script")?.files.map(({ name }) => name)).toEqual(["train.py"]);
  expect(templateOf("fsdp")?.files).toEqual([]);
  expect(templateOf("nonsense")).toBeUndefined();
});
