/** Finding one's way in the text of a document, by the syntax tree of the editor's parser. Pure. */
import { yamlLanguage } from "@codemirror/lang-yaml";
import type { SyntaxNode } from "@lezer/common";

type Read = (node: SyntaxNode) => string;

export const MAPPINGS: ReadonlySet<string> = new Set(["BlockMapping", "FlowMapping"]);
const SEQUENCES: ReadonlySet<string> = new Set(["BlockSequence", "FlowSequence"]);

/** The outermost mapping of each document in the text; null for one that is no mapping. */
export const topMappings = (text: string): (SyntaxNode | null)[] =>
  yamlLanguage.parser
    .parse(text)
    .topNode.getChildren("Document")
    .map((document) => childOf(document, MAPPINGS));

function childOf(node: SyntaxNode, names: ReadonlySet<string>): SyntaxNode | null {
  for (let child = node.firstChild; child; child = child.nextSibling) if (names.has(child.name)) return child;
  return null;
}

/** The key of a pair, without its quotes. */
export function nameOf(pair: SyntaxNode, read: Read): string {
  const key = pair.getChild("Key");
  if (!key) return "";
  const text = read(key).trim();
  return text.replace(/^["']|["']$/g, "");
}

export const pairOf = (mapping: SyntaxNode, name: string, read: Read): SyntaxNode | undefined =>
  mapping.getChildren("Pair").find((pair) => nameOf(pair, read) === name);

/** What stands behind the colon; null: nothing. */
export function valueOf(pair: SyntaxNode): SyntaxNode | null {
  const last = pair.lastChild;
  return last && last.name !== ":" && last.name !== "Key" && last.name !== "Comment" ? last : null;
}

/** 0-based line of a dotted path, or of the innermost part of it that is there; null where none is. */
export function lineOfPath(text: string, path: string): number | null {
  const read: Read = (node) => text.slice(node.from, node.to);
  let node: SyntaxNode | null = topMappings(text)[0] ?? null;
  let found: SyntaxNode | null = null;
  for (const key of path.split(".")) {
    const next: SyntaxNode | undefined = node ? entryOf(node, key, read) : undefined;
    if (!next) break;
    found = next;
    node = next.name === "Pair" ? valueOf(next) : childOf(next, MAPPINGS);
  }
  return found ? text.slice(0, found.from).split("\n").length - 1 : null;
}

/** The pair of a key, or the item of an index. */
function entryOf(node: SyntaxNode, key: string, read: Read): SyntaxNode | undefined {
  if (MAPPINGS.has(node.name)) return pairOf(node, key, read);
  return SEQUENCES.has(node.name) ? node.getChildren("Item")[Number(key)] : undefined;
}
