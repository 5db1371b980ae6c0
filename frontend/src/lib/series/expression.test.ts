// @vitest-environment node
import { describe, expect, test } from "vitest";

import { curveOf, readExpression, together } from "./expression";
import type { Columns } from "./series";

const KNOWN = ["train/loss", "val/loss", "loss", "a", "b", "a-b", "log", "5xx"];

function value(text: string, values: Record<string, number> = {}): number {
  const { expression, problem } = readExpression(text, KNOWN);
  if (!expression) throw new Error(`${problem.kind} at ${problem.at}`);
  return expression.value(new Map(Object.entries(values)));
}
const wrong = (text: string): [string, number] | null => {
  const { problem } = readExpression(text, KNOWN);
  return problem && [problem.kind, problem.at];
};

describe("expressions of metrics", () => {
  test("are computed as written", () => {
    const at = { "train/loss": 0.5, "val/loss": 2, a: 3, b: 4, "a-b": 100, loss: 8 };
    expect(value("train/loss - val/loss", at)).toBe(-1.5);
    expect(value("1 + 2 * a ^ 2 ^ 0", at)).toBe(7);
    expect(value("-a ^ 2", at)).toBe(-9);
    expect(value("(a + b) / 2 - 1 - 1", at)).toBe(1.5);
    expect(value("2 * -a", at)).toBe(-6);
    expect(value("max(a, b, 1e1) + sqrt( abs(-b) )", at)).toBe(12);
    expect(value("log10(100) * loss/2", at)).toBe(8);
  });

  test("the longest known name is a metric, and others are in backquotes", () => {
    const read = (text: string): string[] | undefined => readExpression(text, KNOWN).expression?.metrics;
    expect(read("a-b")).toEqual(["a-b"]);
    expect(read("a - b")).toEqual(["a", "b"]);
    expect(read("a/b")).toEqual(["a", "b"]);
    expect(read("eval/f1 * 2")).toEqual(["eval/f1"]);
    expect(read("`odd name (x)` - loss")).toEqual(["odd name (x)", "loss"]);
    expect(read("log + 1")).toEqual(["log"]);
    expect(read("5xx / 2")).toEqual(["5xx"]);
    expect(readExpression("`val/loss`", []).expression?.isPlain).toBe(true);
    expect(readExpression("val/loss * 1", []).expression?.isPlain).toBe(false);
  });

  test("a mistake is told with its place", () => {
    expect(wrong("")).toEqual(["empty", 0]);
    expect(wrong("a +")).toEqual(["end", 3]);
    expect(wrong("a $ b")).toEqual(["sign", 2]);
    expect(wrong("(a")).toEqual(["end", 2]);
    expect(wrong("a b")).toEqual(["sign", 2]);
    expect(wrong("sqrt(a, b)")).toEqual(["arguments", 0]);
    expect(wrong("1 + 1")).toEqual(["none", 0]);
    expect(wrong("`a")).toEqual(["end", 2]);
    expect(wrong("x".repeat(501))).toEqual(["long", 0]);
    expect(wrong(`${"(".repeat(100)}a${")".repeat(100)}`)?.[0]).toBe("deep");
    expect(wrong("constructor.constructor('alert(1)')()")?.[0]).toBe("sign");
  });
});

function columns(name: string, step: number[], values: number[]): Columns {
  const of = (list: number[]): Float64Array => Float64Array.from(list);
  return {
    name,
    rank: 2,
    bucketSteps: 1,
    numPoints: step.length,
    step: of(step),
    timeMs: of(step.map((at) => at * 1000)),
    min: of(values.map((one) => one - 1)),
    max: of(values),
    mean: of(values),
    last: of(values),
    count: of(step.map(() => 1)),
  };
}

describe("curves of expressions", () => {
  const held = new Map([
    ["a", columns("a", [1, 2, 3, 4, 5], [10, 20, 30, 40, 50])],
    ["b", columns("b", [0, 3, 5, 9], [1, 2, Number.NaN, 4])],
  ]);
  const of = (text: string) => {
    const { expression } = readExpression(text, ["a", "b", "c"]);
    return expression ? curveOf(expression, (name) => held.get(name)) : null;
  };

  test("stand at the steps of the rarest metric, with the latest value of the others", () => {
    const found = of("a - b");
    expect([...(found?.step ?? [])]).toEqual([3, 5, 9]);
    expect([...(found?.mean ?? [])]).toEqual([28, Number.NaN, 46]);
    expect([found?.name, found?.rank, found?.numPoints]).toEqual(["a - b", 2, 3]);
    expect([...(found?.timeMs ?? [])]).toEqual([3000, 5000, 9000]);
  });

  test("a metric alone keeps its own points and bands", () => {
    expect(of("a")).toBe(held.get("a"));
  });

  test("nothing is drawn of a metric that is not reported", () => {
    expect(of("a + c")).toBeNull();
  });

  test("two expressions have their values at the same steps", () => {
    const [x, y] = ["a", "b * 2"].map((text) => readExpression(text, ["a", "b"]).expression);
    if (!x || !y) throw new Error("unread");
    const pair = together([x, y], (name) => held.get(name));
    expect(pair?.map((one) => [...one.mean])).toEqual([
      [30, 50, 50],
      [4, Number.NaN, 8],
    ]);
  });
});
