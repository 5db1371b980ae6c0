import { expect, test } from "vitest";

import { lineOfPath } from "./yamlTree";

test("an error's line is found by its path", () => {
  const document =
    "name: it's\nresources:\n  slots: 2\n  slot_type: cpu\nsearch: {method: asha, trials: 4}\ntrainer:\n  slots: 9\n";
  expect(lineOfPath(document, "resources.slots")).toBe(2);
  expect(lineOfPath(document, "trainer.slots")).toBe(6);
  expect(lineOfPath(document, "search.trials")).toBe(4);
  expect(lineOfPath(document, "resources.missing")).toBe(1);
  expect(lineOfPath(document, "nothing")).toBeNull();
  expect(lineOfPath(document, "")).toBeNull();
});

test("only a key counts, not text that looks like one", () => {
  const document = '# slots: 1\nnotes: |\n  resources:\n    slots: 3\n"resources":\n  # slots: 2\n  slots: 4\n';
  expect(lineOfPath(document, "resources.slots")).toBe(6);
});

test("an index leads to its item", () => {
  const document = "policies:\n  - name: a\n    when: 1\n  - name: b\n    when: 2\nentrypoint: [\n  -m,\n  train]\n";
  expect(lineOfPath(document, "policies.1.when")).toBe(4);
  expect(lineOfPath(document, "policies.1")).toBe(3);
  expect(lineOfPath(document, "policies.7.when")).toBe(0);
  expect(lineOfPath(document, "entrypoint.1")).toBe(7);
});

test("a document that does not parse is searched as far as it goes", () => {
  expect(lineOfPath("name: x\nresources:\n  slots: [1,\n", "resources.slots")).toBe(2);
});
