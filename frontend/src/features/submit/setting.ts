/** Single settings in the text of a document, with everything else as it was written. Pure. */
import type { SyntaxNode } from "@lezer/common";

import { MAPPINGS, nameOf, pairOf, topMappings, valueOf } from "./yamlTree";

const SCALARS = new Set(["Literal", "QuotedLiteral"]);
/** What the planner keeps of a strategy when it looks at another kind; the rest belongs to the kind that is replaced. */
export const FOR_ALL_STRATEGIES = ["accumulate", "precision", "clip_norm", "recompute"];

/**
 * The document with `section.key` set to `value`; null when its text is not understood (anchors, tags, several
 * documents, a value that is itself a mapping). With `keep`, what else stands in the section stays only if it is
 * named there.
 */
export function withSetting(
  document: string,
  section: string,
  key: string,
  value: string | number,
  keep?: readonly string[],
): string | null {
  const [top, ...others] = topMappings(document);
  if (!top || others.length > 0) return null;
  const put = (from: number, to: number, text: string): string => document.slice(0, from) + text + document.slice(to);
  const read = (node: SyntaxNode): string => document.slice(node.from, node.to);
  const entry = `${key}: ${value}`;
  const outer = pairOf(top, section, read);
  if (!outer)
    return inserted(
      top,
      top.name === "FlowMapping" ? `${section}: {${entry}}` : `${section}:\n  ${entry}`,
      document,
      put,
      true,
    );
  const held = valueOf(outer);
  if (!held || /^(null|~)$/.test(read(held)))
    return put(colonEnd(outer), held ? held.to : colonEnd(outer), ` {${entry}}`);
  if (!MAPPINGS.has(held.name)) return null;
  const pairs = held.getChildren("Pair");
  const stays = pairs.filter((pair) => nameOf(pair, read) !== key && (!keep || keep.includes(nameOf(pair, read))));
  if (keep && stays.length < pairs.filter((pair) => nameOf(pair, read) !== key).length) {
    const kept = stays.map(read);
    if (kept.some((text) => text.includes("\n"))) return null;
    return put(colonEnd(outer), held.to, ` {${[entry, ...kept].join(", ")}}`);
  }
  const inner = pairOf(held, key, read);
  if (!inner) return inserted(held, entry, document, put, false);
  const old = valueOf(inner);
  if (!old) return put(colonEnd(inner), colonEnd(inner), ` ${value}`);
  return SCALARS.has(old.name) ? put(old.from, old.to, String(value)) : null;
}

const colonEnd = (pair: SyntaxNode): number => pair.getChild(":")?.to ?? pair.to;

/** As the first entry of a mapping, or (`last`) of a block mapping as the last one of the document. */
function inserted(
  mapping: SyntaxNode,
  entry: string,
  document: string,
  put: (from: number, to: number, text: string) => string,
  last: boolean,
): string | null {
  const first = mapping.getChild("Pair");
  if (mapping.name === "FlowMapping") return put(mapping.from + 1, mapping.from + 1, first ? `${entry}, ` : entry);
  if (!first) return null;
  if (last) return `${document.replace(/\n*$/, "\n")}${entry}\n`;
  const indent = first.from - (document.lastIndexOf("\n", first.from - 1) + 1);
  return put(first.from, first.from, `${entry}\n${" ".repeat(indent)}`);
}

/** A key at the top (["name"]) or in a section (["resources", "slots"]). */
export type SettingPath = readonly [string] | readonly [string, string];

/** The scalar at the path as it is written, without quotes; "" where there is none, null where something else stands. */
export function settingAt(document: string, path: SettingPath): string | null {
  const read = (node: SyntaxNode): string => document.slice(node.from, node.to);
  let [node] = topMappings(document);
  for (const [i, key] of path.entries()) {
    if (!node || !MAPPINGS.has(node.name)) return i === 0 ? "" : null;
    const pair: SyntaxNode | undefined = pairOf(node, key, read);
    const held: SyntaxNode | null = pair ? valueOf(pair) : null;
    if (!held || /^(null|~)$/.test(read(held))) return "";
    node = held;
  }
  if (!node || !SCALARS.has(node.name)) return null;
  const text = read(node);
  if (node.name !== "QuotedLiteral") return text;
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  try {
    return String(JSON.parse(text));
  } catch {
    return null;
  }
}

/** Whether there is a section of that name. */
export function hasSection(document: string, name: string): boolean {
  const [top] = topMappings(document);
  return top ? pairOf(top, name, (node) => document.slice(node.from, node.to)) !== undefined : false;
}

const PLAIN = /^[A-Za-z0-9_./$-][A-Za-z0-9_./$ =+-]*$/;
const NOT_TEXT = /^(null|~|true|false|[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?)$/i;

/** Text as YAML writes it: plain where that stays text. */
export const quotedText = (text: string): string =>
  PLAIN.test(text) && !NOT_TEXT.test(text) && text.trim() === text ? text : JSON.stringify(text);

/** The document with the value as it is to be written; "" takes the setting away. Null: its text is not understood. */
export function withValue(document: string, path: SettingPath, value: string): string | null {
  if (value === "") return withoutSetting(document, path);
  const [first, second] = path;
  if (second !== undefined) return withSetting(document.trim() === "" ? "{}\n" : document, first, second, value);
  const [top, ...others] = topMappings(document);
  if (document.trim() === "") return `${first}: ${value}\n`;
  if (!top || others.length > 0) return null;
  const read = (node: SyntaxNode): string => document.slice(node.from, node.to);
  const put = (from: number, to: number, text: string): string => document.slice(0, from) + text + document.slice(to);
  const pair = pairOf(top, first, read);
  if (!pair) return inserted(top, `${first}: ${value}`, document, put, false);
  const held = valueOf(pair);
  if (!held) return put(colonEnd(pair), colonEnd(pair), ` ${value}`);
  return SCALARS.has(held.name) ? put(held.from, held.to, value) : null;
}

/** The document without a setting: its whole line, or its entry between braces. */
function withoutSetting(document: string, path: SettingPath): string | null {
  const read = (node: SyntaxNode): string => document.slice(node.from, node.to);
  const [top] = topMappings(document);
  let mapping: SyntaxNode | null | undefined = top;
  let pair: SyntaxNode | undefined;
  for (const key of path) {
    if (!mapping || !MAPPINGS.has(mapping.name)) return document;
    pair = pairOf(mapping, key, read);
    if (!pair) return document;
    if (key !== path.at(-1)) mapping = valueOf(pair);
  }
  if (!pair || !mapping) return document;
  if (mapping.name === "FlowMapping") {
    const after = /^\s*,\s*/.exec(document.slice(pair.to));
    if (after) return document.slice(0, pair.from) + document.slice(pair.to + after[0].length);
    const before = /,\s*$/.exec(document.slice(0, pair.from));
    return document.slice(0, pair.from - (before?.[0].length ?? 0)) + document.slice(pair.to);
  }
  const start = document.lastIndexOf("\n", pair.from - 1) + 1;
  const next = document.indexOf("\n", pair.to);
  const only = mapping.getChildren("Pair").length === 1 && path.length > 1;
  // An empty section would be null, which is not what it was.
  if (only) return withoutSetting(document, [path[0]]);
  return document.slice(0, start) + (next < 0 ? "" : document.slice(next + 1));
}
