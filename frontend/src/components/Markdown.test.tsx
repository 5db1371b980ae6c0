import { render } from "@testing-library/react";
import { expect, test } from "vitest";

import { blocksOf, Markdown } from "./Markdown";

const html = (text: string): string => {
  const { container } = render(<Markdown text={text} />);
  return container.firstElementChild?.innerHTML ?? "";
};

test("blocks of a text", () => {
  const text =
    "# Run\nfirst\nsecond\n\n- a\n- b\n  more\n1. c\n> said\n```py\nx = `1`\n```\n---\n| a | b |\n|---|--:|\n| 1 |\nend";
  expect(blocksOf(text)).toEqual([
    { kind: "heading", level: 1, text: "Run" },
    { kind: "text", text: "first\nsecond" },
    { kind: "list", ordered: false, items: ["a", "b more", "c"] },
    { kind: "quote", text: "said" },
    { kind: "code", text: "x = `1`" },
    { kind: "rule" },
    { kind: "table", head: ["a", "b"], rows: [["1"]] },
    { kind: "text", text: "end" },
  ]);
});

test("words are bold, slanted, code or linked", () => {
  expect(html("a **b** _c_ `d*e*` [f](https://x.y) snake_case_name 2 * 3 * 4")).toBe(
    '<p>a <strong>b</strong> <em>c</em> <code>d*e*</code> <a href="https://x.y" rel="noreferrer" target="_blank">f</a>' +
      " snake_case_name 2 * 3 * 4</p>",
  );
});

test("nothing in it is markup, and no link runs a script", () => {
  expect(html("<img src=x onerror=alert(1)>")).toBe("<p>&lt;img src=x onerror=alert(1)&gt;</p>");
  expect(html("[a](javascript:alert)")).toBe("<p>[a](javascript:alert)</p>");
  expect(html("[a](//evil.example)")).toBe("<p>[a](//evil.example)</p>");
});
