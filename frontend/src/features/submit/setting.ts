/** One setting in the text of a document, with everything else as it was written. Pure. */
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
