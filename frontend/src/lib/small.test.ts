import { describe, expect, test } from "vitest";

import { lastWriting, parseAnsi } from "./text/ansi";
import { rankRanges } from "./series/perf";
import { pickStates } from "./states";
import { elapsedS, stamp } from "./time";
import { asCli, asCurl } from "./text/yaml";

describe("log text", () => {
  const text = (raw: string): string =>
    parseAnsi(raw)
      .map((s) => s.text)
      .join("");
  test("colours become classes", () => {
    const spans = parseAnsi("a \u001b[31mred\u001b[0m b");
    expect(spans.map((s) => s.text).join("")).toBe("a red b");
    expect(spans[1]?.className).toContain("ansi-red-fg");
  });
  test("nothing else of a terminal is obeyed or shown", () => {
    expect(text("\u001b[2J\u001b[Hhi")).toBe("hi");
    expect(text("\u001b]0;title\u0007hi")).toBe("hi");
    expect(text("\u001b]8;;https://evil.example\u001b\\click\u001b]8;;\u001b\\")).toBe("click");
    expect(text("a\u0000\u0008b\u202Ec")).toBe("abc");
    expect(text("\u001b[31mx\u001b[5Ay")).toBe("xy");
  });
  test("a progress bar's last writing counts", () => {
    expect(lastWriting("10%\r50%\r100%\r")).toBe("100%");
  });
  test("markup stays text", () => {
    expect(text("<b>&amp;</b>")).toBe("<b>&amp;</b>");
  });
});

test("rank ranges", () => {
  expect(rankRanges([8, 0, 1, 2, 5, 7])).toBe("0–2, 5, 7–8");
  expect(rankRanges([])).toBe("");
});

test("states named in the address: unknown ones are dropped", () => {
  expect(pickStates(["A", "B", "C"], "C,A,X")).toEqual(["A", "C"]);
  expect(pickStates(["A"], undefined)).toEqual([]);
});

test("time", () => {
  expect(elapsedS("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", 0)).toBe(60);
  expect(elapsedS(null, null, 0)).toBeNull();
  expect(elapsedS("2026-01-01T00:00:10Z", null, Date.parse("2026-01-01T00:00:00Z"))).toBe(0);
  expect(stamp(Date.parse("2026-01-02T03:04:05Z"), "utc")).toBe("2026-01-02 03:04:05 UTC");
});

describe("submit texts", () => {
  const document =
    "name: it's\nresources:\n  slots: 2\n  slot_type: cpu\nsearch: {method: asha, trials: 4}\ntrainer:\n  slots: 9\n";
  test("quotes survive the shell", () => {
    expect(asCurl(document, "http://h")).toContain(`it'\\''s`);
    expect(asCli(document, "http://h")).toContain("muster submit experiment.yaml");
  });
});
