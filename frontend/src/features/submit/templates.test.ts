import { expect, test } from "vitest";

import { submit } from "../../i18n/en/submit";
import { FIRST, groups, hasTitle, methodOf, TEMPLATES, templateOf, withSection } from "./templates";

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

test("a link adds a section that the template lacks, and leaves one that it has", () => {
  const set = 'resources={"slots":1,"allow_nodes":["gpu1"]}';
  expect(withSection("name: digits\ntrainer: {}\n", set)).toBe(
    'name: digits\ntrainer: {}\nresources: {"slots":1,"allow_nodes":["gpu1"]}\n',
  );
  expect(withSection("resources: {slots: 2}\n", set)).toBe("resources: {slots: 2}\n");
  expect(withSection("name: a\n", undefined)).toBe("name: a\n");
  expect(withSection(templateOf("one-worker")?.document ?? "", set)).toContain("\nresources: {");
});
