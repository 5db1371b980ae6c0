import { expect, test } from "vitest";

import { submit } from "../../i18n/en/submit";
import { FIRST, groups, hasTitle, methodOf, TEMPLATES, templateOf } from "./templates";

test("every example with a document is offered once, under a title or the name of its method", () => {
  const offered = groups.flatMap(({ templates }) => [...templates]);
  expect([...offered].toSorted()).toEqual([...TEMPLATES.keys()].toSorted());
  expect(Object.keys(submit.submit.templates).toSorted()).toEqual(offered.filter(hasTitle).toSorted());
  expect(offered.filter((id) => !hasTitle(id) && methodOf(id) === "")).toEqual([]);
  expect([methodOf("search-pbt"), methodOf("fsdp")]).toEqual(["pbt", ""]);
  expect(templateOf(FIRST)?.document).toContain("model: cnn");
});

test("a script of an example comes with it", () => {
  expect(templateOf("sdk-script")?.files.map(({ name }) => name)).toEqual(["train.py"]);
  expect(templateOf("fsdp")?.files).toEqual([]);
  expect(templateOf("nonsense")).toBeUndefined();
});
