import { expect, test } from "vitest";

import { notesHtml } from "./markdown";

function shown(text: string): HTMLElement {
  const element = document.createElement("div");
  element.innerHTML = notesHtml(text);
  return element;
}

test("notes become headings, lists, tables and links", () => {
  const element = shown(
    "# Plan\n\n- **bold** `code`\n- [x] done\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nhttps://example.org",
  );
  expect(element.querySelector("h3")).toHaveTextContent("Plan");
  expect(element.querySelector("strong")).toHaveTextContent("bold");
  expect([...element.querySelectorAll("li")].map((item) => item.textContent)).toContain("☑ done");
  expect(element.querySelector("[data-scrolls] td[align=right]")).toHaveTextContent("2");
  const link = element.querySelector("a");
  expect(link).toHaveAttribute("href", "https://example.org");
  expect(link).toHaveAttribute("rel", "noopener noreferrer");
});

test("plain text stays as it was written, with its lines", () => {
  const element = shown('a < b && c > "d"\nsecond line &amp; more');
  expect(element.textContent.trim()).toBe('a < b && c > "d"second line & more');
  expect(element.querySelectorAll("br")).toHaveLength(1);
});

const HOSTILE = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "a <pre> b <img src=x onerror=alert(1) //",
  "<style>*{display:none}</style>",
  "<iframe src=https://example.org></iframe>",
  "<!-- --><svg/onload=alert(1)>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](javascript&#58;alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "[x](vbscript:x)",
  "[x](//example.org)",
  "[x](/\\example.org)",
  '[x](https://example.org/"onmouseover="alert(1))',
  '[x](https://example.org "\\" onmouseover=alert(1)")',
  "![x](javascript:alert(1))",
  '![x" onerror="alert(1)](https://example.org/p.png)',
  "<javascript:alert(1)>",
  "[x]: javascript:alert(1)\n\n[x]",
  "```html\n<script>alert(1)</script>\n```",
  '```"><img src=x onerror=alert(1)>\nx\n```',
  "`<b>` <b>x</b>",
  "| <img src=x onerror=alert(1)> |\n| --- |\n| <a href=javascript:alert(1)>x</a> |",
];
const ALLOWED = /^(?:p|br|strong|em|del|code|pre|a|ul|ol|li|blockquote|hr|h[3-6]|table|thead|tbody|tr|th|td|div)$/;
const ATTRIBUTES = new Set(["href", "target", "rel", "align", "tabindex", "data-scrolls", "start"]);

test.each(HOSTILE)("what is hostile is text: %s", (text) => {
  for (const element of shown(text).querySelectorAll("*")) {
    expect(element.localName).toMatch(ALLOWED);
    for (const { name } of element.attributes) expect(ATTRIBUTES).toContain(name);
    if (element instanceof HTMLAnchorElement) {
      const written = element.getAttribute("href") ?? "";
      expect(new URL(written, "https://muster.test/").origin).toMatch(/^https:\/\/(?:muster\.test|example\.org)$/);
      expect(written.startsWith("//")).toBe(false);
    }
  }
});

test.each([
  ["# A\n## B\n# C", "h3 h4 h3"],
  ["## A\n\n## B\n\n### C", "h3 h3 h4"],
  ["### A\n# B\n#### C\n##### D", "h3 h3 h4 h5"],
  ["> ## A\n\ntext\n\n- ### B", "h3 h4"],
])("headings leave no level out: %j", (text, levels) => {
  const found = [...shown(text).querySelectorAll("h1, h2, h3, h4, h5, h6")].map(({ localName }) => localName);
  expect(found.join(" ")).toBe(levels);
});
