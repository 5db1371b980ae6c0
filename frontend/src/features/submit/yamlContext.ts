/** What stands at a place in a document that is being written, and may not parse yet. Pure. */

export interface Context {
  /** Keys of the mappings around, the outermost first; for a value, its own key too. */
  path: string[];
  kind: "key" | "value";
  /** What has been typed of it so far. */
  word: string;
  /** Where that begins. */
  from: number;
  /** Keys that stand in the same mapping already. */
  siblings: string[];
  /** Between braces or brackets. */
  isFlow: boolean;
}

const KEY = /^(\s*(?:- +)*)(["']?)([\w./-]+)\2\s*:(?=\s|$)/;
const BLOCK_TEXT = /:\s*[|>][+-]?\d?\s*(#.*)?$/;

interface Line {
  indent: number;
  key: string;
}

/** The key of a line and where it begins; null for a line without one. */
function keyOf(line: string): Line | null {
  const found = KEY.exec(line);
  return found ? { indent: (found[1] ?? "").length, key: found[3] ?? "" } : null;
}

/** Keys of the mappings that a line with this indent stands in; null inside of a block of text. */
function parentsOf(lines: readonly string[], at: number, indent: number): string[] | null {
  const path: string[] = [];
  let within = indent;
  for (let i = at - 1; i >= 0 && within > 0; i -= 1) {
    const line = lines[i] ?? "";
    const found = keyOf(line);
    if (found === null || found.indent >= within) continue;
    if (BLOCK_TEXT.test(line)) return null;
    path.unshift(found.key);
    // A list may stand as far left as its key.
    within = /^\s*- /.test(line) ? Math.max(line.search(/\S/), 0) : found.indent;
    if (/^\s*- /.test(line)) within += 1;
  }
  return path;
}

function siblingsOf(lines: readonly string[], at: number, indent: number): string[] {
  const found: string[] = [];
  for (const step of [-1, 1]) {
    for (let i = at + step; i >= 0 && i < lines.length; i += step) {
      const line = lines[i] ?? "";
      if (line.trim() === "" || line.trimStart().startsWith("#")) continue;
      const own = keyOf(line);
      const left = own?.indent ?? line.search(/\S/);
      if (left < indent) break;
      if (own && own.indent === indent) found.push(own.key);
    }
  }
  return found;
}

interface Level {
  key: string;
  keys: string[];
  isList: boolean;
}

/** The braces and brackets that are open at the end of a line's beginning, and what was typed since. */
function flowOf(text: string): { levels: Level[]; rest: string; from: number } | null {
  const levels: Level[] = [];
  let quote = "";
  let start = 0;
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i] ?? "";
    if (quote !== "") {
      if (char === quote) quote = "";
    } else if (char === '"' || char === "'") quote = char;
    else if (char === "#" && /\s/.test(text[i - 1] ?? " ")) return null;
    else if (char === "{" || char === "[") {
      levels.push({ key: text.slice(start, i).replace(/:\s*$/, "").trim(), keys: [], isList: char === "[" });
      start = i + 1;
    } else if (char === "}" || char === "]") {
      levels.pop();
      start = i + 1;
    } else if (char === "," && levels.length > 0) {
      const entry = /^\s*([\w./-]+)\s*:/.exec(text.slice(start, i));
      if (entry?.[1]) levels.at(-1)?.keys.push(entry[1]);
      start = i + 1;
    }
  }
  return quote === "" ? { levels, rest: text.slice(start), from: start } : null;
}

/** Null in comments, quoted text and blocks of text. */
export function contextAt(text: string, pos: number): Context | null {
  const before = text.slice(0, pos);
  const lines = text.split("\n");
  const at = before.split("\n").length - 1;
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const flow = flowOf(line);
  if (flow === null) return null;
  if (flow.levels.length > 0) return inFlow(lines, at, pos, flow);
  const value = KEY.exec(line);
  if (value) {
    const indent = (value[1] ?? "").length;
    const parents = parentsOf(lines, at, indent);
    const rest = line.slice(value[0].length);
    const word = rest.trimStart();
    // "slots:" without a blank is not a value yet, "slots: 2 4" and quoted text are none to complete.
    if (parents === null || rest === "" || /[\s"'{[]/.test(word)) return null;
    return {
      path: [...parents, value[3] ?? ""],
      kind: "value",
      word,
      from: pos - word.length,
      siblings: [],
      isFlow: false,
    };
  }
  const item = /^(\s*(?:- +)*)([\w./-]*)$/.exec(line);
  if (!item) return null;
  const indent = (item[1] ?? "").length;
  const parents = parentsOf(lines, at, indent);
  if (parents === null) return null;
  const word = item[2] ?? "";
  return {
    path: parents,
    kind: "key",
    word,
    from: pos - word.length,
    siblings: siblingsOf(lines, at, indent),
    isFlow: false,
  };
}

function inFlow(
  lines: readonly string[],
  at: number,
  pos: number,
  { levels, rest }: { levels: Level[]; rest: string },
): Context | null {
  const outer = keyOf(lines[at] ?? "");
  const parents = parentsOf(lines, at, outer?.indent ?? 0);
  if (parents === null) return null;
  const path = [...parents, ...levels.map(({ key }) => key.replace(/^[\s-]+/, ""))].filter((key) => key !== "");
  const last = levels.at(-1);
  const entry = /^\s*([\w./-]+)\s*:\s+([^\s]*)$/.exec(rest);
  if (entry) {
    const word = entry[2] ?? "";
    return {
      path: [...path, entry[1] ?? ""],
      kind: "value",
      word,
      from: pos - word.length,
      siblings: [],
      isFlow: true,
    };
  }
  const word = rest.trimStart();
  if (!/^[\w./-]*$/.test(word)) return null;
  return {
    path,
    kind: last?.isList ? "value" : "key",
    word,
    from: pos - word.length,
    siblings: last?.keys ?? [],
    isFlow: true,
  };
}

/** The path of the key under a place, for what it means; null where there is none. */
export function keyUnder(text: string, pos: number): { path: string[]; from: number; to: number } | null {
  const start = text.lastIndexOf("\n", pos - 1) + 1;
  const end = text.indexOf("\n", pos) < 0 ? text.length : text.indexOf("\n", pos);
  const line = text.slice(start, end);
  let [from, to] = [pos - start, pos - start];
  while (from > 0 && /[\w./-]/.test(line[from - 1] ?? "")) from -= 1;
  while (to < line.length && /[\w./-]/.test(line[to] ?? "")) to += 1;
  if (from === to || !/^\s*:(\s|$)/.test(line.slice(to))) return null;
  const found = contextAt(text, start + from);
  if (!found || found.kind !== "key") return null;
  return { path: [...found.path, line.slice(from, to)], from: start + from, to: start + to };
}
