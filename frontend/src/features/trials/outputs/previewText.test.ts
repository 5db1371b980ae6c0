import { expect, test } from "vitest";

import { globOf } from "../../../api/queries";
import { rowsOf, shownOf } from "./previewText";

test("a table with quotes is a table, and only its beginning", () => {
  expect(rowsOf('a,b\n"x, ""y""\nz",2\r\n', ",")).toEqual([
    ["a", "b"],
    ['x, "y"\nz', "2"],
  ]);
  expect(rowsOf("a,b\n".repeat(1000), ",")).toHaveLength(200);
  expect(shownOf("loss.csv", "step,loss\n1,0.5")).toEqual({
    kind: "table",
    rows: [
      ["step", "loss"],
      ["1", "0.5"],
    ],
  });
  expect(shownOf("loss.csv", "no table")).toEqual({ kind: "text", text: "no table" });
});

test("JSON is indented, and what was cut off stays as it is", () => {
  expect(shownOf("a.json @node1", '{"a":1}')).toEqual({ kind: "text", text: '{\n  "a": 1\n}' });
  expect(shownOf("a.json", '{"a":')).toEqual({ kind: "text", text: '{"a":' });
});

test("a notebook is its cells and what they printed", () => {
  const cells = [
    { cell_type: "markdown", source: ["# Title\n", "text"] },
    { cell_type: "code", source: "print(1)", outputs: [{ text: ["1\n"] }, { data: { "text/html": "<b>" } }] },
  ];
  expect(shownOf("n.ipynb", JSON.stringify({ cells }))).toEqual({
    kind: "text",
    text: "# [1] markdown\n# Title\ntext\n\n# [2] code\nprint(1)\n# →\n1\n",
  });
});

test("text is looked for anywhere in a path, a pattern as it is", () => {
  expect(globOf("ckpt[1]")).toBe("*ckpt[[]1]*");
  expect(globOf("*.pt")).toBe("*.pt");
  expect(globOf("")).toBeUndefined();
});
