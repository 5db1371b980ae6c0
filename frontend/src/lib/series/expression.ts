/**
 * Expressions of metrics, such as `train/loss - val/loss` or `log10(train/loss)`. Read and computed here, never by `eval`.
 * Pure.
 *
 * Names are found as the longest one that is known, so that `train/loss` is a metric and `a / b` a division; a name that
 * holds other signs stands in backquotes. A value that cannot be computed is NaN.
 */
import { type Columns, indexAt } from "./series";

/** As the server keeps them. */
export const MAX_CHARS = 500;
const MAX_DEPTH = 60;

const FUNCTIONS: Readonly<Record<string, { min: number; max: number; of: (...values: number[]) => number }>> = {
  log: { min: 1, max: 1, of: Math.log },
  log2: { min: 1, max: 1, of: Math.log2 },
  log10: { min: 1, max: 1, of: Math.log10 },
  exp: { min: 1, max: 1, of: Math.exp },
  sqrt: { min: 1, max: 1, of: Math.sqrt },
  abs: { min: 1, max: 1, of: Math.abs },
  min: { min: 1, max: 20, of: Math.min },
  max: { min: 1, max: 20, of: Math.max },
};
export const FUNCTION_NAMES = Object.keys(FUNCTIONS);

type Node = (values: ReadonlyMap<string, number>) => number;

export interface Expression {
  text: string;
  /** Each once, in the order in which they are named. */
  metrics: string[];
  /** It is a metric and nothing else. */
  isPlain: boolean;
  value: (values: ReadonlyMap<string, number>) => number;
}

export type Problem = {
  kind: "empty" | "long" | "sign" | "end" | "arguments" | "deep" | "none";
  at: number;
  text: string;
};
export type Read = { expression: Expression; problem: null } | { expression: null; problem: Problem };

class Mistake extends Error {
  constructor(readonly problem: Problem) {
    super(problem.kind);
  }
}

const NUMBER = /^(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/i;
const NAME = /^[\p{L}_][\p{L}\p{N}_.@]*(?:\/[\p{L}\p{N}_.@]+)*/u;
const POWERS: Readonly<Record<string, number>> = { "+": 1, "-": 1, "*": 2, "/": 2, "^": 4 };
const UNARY = 3;

const APPLY: Readonly<Record<string, (a: number, b: number) => number>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "^": (a, b) => a ** b,
};

/** Reads by precedence: a left side, and what binds stronger than what stands before it. */
class Reader {
  private at = 0;
  private depth = 0;
  readonly metrics: string[] = [];

  constructor(
    private readonly text: string,
    /** The longest first. */
    private readonly known: readonly string[],
  ) {}

  all(): Node {
    const node = this.part(0);
    this.blanks();
    if (this.at < this.text.length) this.wrong("sign");
    return node;
  }

  /** A function or a metric and nothing else was read. */
  private wrong(kind: Problem["kind"], at = this.at): never {
    throw new Mistake({ kind, at, text: this.text.slice(at, at + 1) });
  }

  private blanks(): void {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  private take(sign: string): boolean {
    this.blanks();
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  private part(least: number): Node {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) this.wrong("deep");
    let left = this.first();
    for (;;) {
      this.blanks();
      const sign = this.text[this.at] ?? "";
      const power = POWERS[sign];
      const apply = APPLY[sign];
      if (power === undefined || apply === undefined || power < least) break;
      this.at += 1;
      // a ^ b ^ c is a ^ (b ^ c); the others go from left to right.
      const [before, after] = [left, this.part(sign === "^" ? power : power + 1)];
      left = (values) => apply(before(values), after(values));
    }
    this.depth -= 1;
    return left;
  }

  private first(): Node {
    this.blanks();
    if (this.at >= this.text.length) this.wrong("end");
    if (this.take("-")) {
      const inner = this.part(UNARY);
      return (values) => -inner(values);
    }
    if (this.take("(")) {
      const inner = this.part(0);
      if (!this.take(")")) this.wrong(this.at < this.text.length ? "sign" : "end");
      return inner;
    }
    const rest = this.text.slice(this.at);
    if (rest.startsWith("`")) {
      const end = rest.indexOf("`", 1);
      if (end < 0) this.wrong("end", this.text.length);
      if (end === 1) this.wrong("sign");
      this.at += end + 1;
      return this.metric(rest.slice(1, end));
    }
    const number = NUMBER.exec(rest)?.[0];
    const known = this.known.find((name) => rest.startsWith(name) && !/^[\p{L}\p{N}_]/u.test(rest.slice(name.length)));
    if (number !== undefined && (known?.length ?? 0) <= number.length) {
      this.at += number.length;
      const value = Number(number);
      return () => value;
    }
    const word = NAME.exec(rest)?.[0];
    if (known === undefined && word !== undefined && Object.hasOwn(FUNCTIONS, word)) {
      const call = this.call(word);
      if (call) return call;
    }
    const name = known ?? word;
    if (name === undefined) this.wrong("sign");
    this.at += name.length;
    return this.metric(name);
  }

  private metric(name: string): Node {
    if (!this.metrics.includes(name)) this.metrics.push(name);
    return (values) => values.get(name) ?? Number.NaN;
  }

  /** A function with its arguments; null when no parenthesis follows: then it is a metric's name. */
  private call(word: string): Node | null {
    const begin = this.at;
    this.at += word.length;
    if (!this.take("(")) {
      this.at = begin;
      return null;
    }
    const values: Node[] = [this.part(0)];
    while (this.take(",")) values.push(this.part(0));
    if (!this.take(")")) this.wrong(this.at < this.text.length ? "sign" : "end");
    const known = FUNCTIONS[word];
    if (!known || values.length < known.min || values.length > known.max) this.wrong("arguments", begin);
    return (given) => known.of(...values.map((value) => value(given)));
  }
}

/** An expression, or what is wrong with it and where; `known`: the names of the metrics there are. */
export function readExpression(given: string, known: readonly string[]): Read {
  const text = given.trim();
  const none = (kind: Problem["kind"]): Read => ({ expression: null, problem: { kind, at: 0, text: "" } });
  if (text === "") return none("empty");
  if (text.length > MAX_CHARS) return none("long");
  if (known.includes(text))
    return {
      expression: { text, metrics: [text], isPlain: true, value: (values) => values.get(text) ?? Number.NaN },
      problem: null,
    };
  try {
    const reader = new Reader(
      text,
      known.toSorted((a, b) => b.length - a.length),
    );
    const value = reader.all();
    if (reader.metrics.length === 0) return none("none");
    const isPlain = reader.metrics.length === 1 && text.replaceAll("`", "") === reader.metrics[0];
    return { expression: { text, metrics: reader.metrics, isPlain, value }, problem: null };
  } catch (error) {
    if (error instanceof Mistake) return { expression: null, problem: error.problem };
    throw error;
  }
}

const NOTHING = new Float64Array(0);

/** A curve with these steps and values; each value stands for itself. */
function curve(name: string, like: Columns | undefined, step: number[], timeMs: number[], values: number[]): Columns {
  const value = Float64Array.from(values);
  return {
    name,
    rank: like?.rank ?? 0,
    bucketSteps: like?.bucketSteps ?? 1,
    numPoints: value.length,
    downsampled: like?.downsampled,
    step: Float64Array.from(step),
    timeMs: Float64Array.from(timeMs),
    min: value,
    max: value,
    mean: value,
    last: value,
    count: step.length > 0 ? new Float64Array(step.length).fill(1) : NOTHING,
  };
}

/**
 * Several expressions of one run at the same steps: those of the metric that is reported most rarely, where each other
 * metric has its latest value at or before the step. Steps before the first value of one are left out. Null while a
 * metric is missing.
 */
export function together(
  expressions: readonly Expression[],
  columns: (metric: string) => Columns | undefined,
): Columns[] | null {
  const names = [...new Set(expressions.flatMap((one) => one.metrics))];
  const held = names.map((name) => columns(name));
  if (held.some((one) => one === undefined || one.step.length === 0)) return null;
  const all = held as Columns[];
  const rarest = all.reduce((a, b) => (b.step.length < a.step.length ? b : a));
  const [step, timeMs]: [number[], number[]] = [[], []];
  const out: number[][] = expressions.map(() => []);
  const values = new Map<string, number>();
  rarest.step.forEach((at, i) => {
    const places = all.map((one) => indexAt(one.step, at));
    if (places.some((place) => place < 0)) return;
    names.forEach((name, k) => values.set(name, all[k]?.mean[places[k] ?? 0] ?? Number.NaN));
    step.push(at);
    timeMs.push(rarest.timeMs[i] ?? 0);
    expressions.forEach((one, k) => out[k]?.push(one.value(values)));
  });
  return expressions.map((one, k) => curve(one.text, rarest, step, timeMs, out[k] ?? []));
}

/** The curve of an expression; of a metric alone that metric's own, with its buckets. Null while a metric is missing. */
export function curveOf(expression: Expression, columns: (metric: string) => Columns | undefined): Columns | null {
  if (expression.isPlain) return columns(expression.metrics[0] ?? "") ?? null;
  return together([expression], columns)?.[0] ?? null;
}
