/** The JSON schema of the experiment document, read by path. Pure. */

export interface SchemaNode {
  $ref?: string;
  $defs?: Record<string, SchemaNode>;
  anyOf?: SchemaNode[];
  oneOf?: SchemaNode[];
  type?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, SchemaNode>;
  required?: string[];
  additionalProperties?: boolean | SchemaNode;
  items?: SchemaNode;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

/** What a node can be, without references and null. */
function optionsOf(root: SchemaNode, node: SchemaNode): SchemaNode[] {
  if (node.$ref) {
    const target = root.$defs?.[node.$ref.replace(/^#\/\$defs\//, "")];
    return target ? optionsOf(root, target) : [];
  }
  const several = node.anyOf ?? node.oneOf;
  if (several) return several.flatMap((option) => optionsOf(root, option));
  return node.type === "null" ? [] : [node];
}

/** A key's own node: its description and default stand beside the reference to what it holds. */
export function nodeAt(root: SchemaNode, path: readonly string[]): SchemaNode | null {
  let node: SchemaNode | null = root;
  for (const key of path) {
    node = node ? childOf(root, node, key) : null;
    if (!node) return null;
  }
  return node;
}

function childOf(root: SchemaNode, node: SchemaNode, key: string): SchemaNode | null {
  for (const option of optionsOf(root, node)) {
    if (option.properties?.[key]) return option.properties[key];
    if (option.items) {
      const inner = childOf(root, option.items, key);
      if (inner) return inner;
    }
    if (typeof option.additionalProperties === "object") return option.additionalProperties;
  }
  return null;
}

export interface KeyInfo {
  name: string;
  node: SchemaNode;
  /** It holds a mapping. */
  isSection: boolean;
}

/** The keys that a mapping at the path can have; [] where anything may stand, and where nothing can. */
export function keysAt(root: SchemaNode, path: readonly string[]): KeyInfo[] {
  const node = nodeAt(root, path);
  if (!node) return [];
  const found = new Map<string, KeyInfo>();
  const add = (option: SchemaNode): void => {
    for (const [name, inner] of Object.entries(option.properties ?? {}))
      if (!found.has(name)) found.set(name, { name, node: inner, isSection: isSection(root, inner) });
    if (option.items) for (const item of optionsOf(root, option.items)) add(item);
  };
  for (const option of optionsOf(root, node)) add(option);
  return [...found.values()];
}

const isSection = (root: SchemaNode, node: SchemaNode): boolean =>
  optionsOf(root, node).some((option) => option.properties !== undefined || option.type === "object");

/** The values that can stand at the path, as they are written; [] where they cannot be listed. */
export function valuesAt(root: SchemaNode, path: readonly string[]): string[] {
  const node = nodeAt(root, path);
  if (!node) return [];
  const values = optionsOf(root, node).flatMap((option): unknown[] => {
    const one = option.items ? optionsOf(root, option.items) : [option];
    return one.flatMap((inner) =>
      inner.enum !== undefined
        ? inner.enum
        : inner.const !== undefined
          ? [inner.const]
          : inner.type === "boolean"
            ? [true, false]
            : [],
    );
  });
  return [...new Set(values.map(String))];
}

const KINDS: Readonly<Record<string, string>> = {
  integer: "whole number",
  number: "number",
  string: "text",
  boolean: "true or false",
  array: "list",
  object: "mapping",
};

const MAX_VALUES = 6;

/** What can stand there, in a few words: "whole number, ≥ 1", "ddp | fsdp". */
export function kindText(root: SchemaNode, node: SchemaNode): string {
  const words = optionsOf(root, node).map((option) => {
    if (option.enum)
      return [...option.enum.slice(0, MAX_VALUES), ...(option.enum.length > MAX_VALUES ? ["…"] : [])].join(" | ");
    if (option.const !== undefined) return String(option.const);
    const bounds = [
      option.minimum === undefined ? "" : `≥ ${option.minimum}`,
      option.exclusiveMinimum === undefined ? "" : `> ${option.exclusiveMinimum}`,
      option.maximum === undefined || option.maximum > 2 ** 40 ? "" : `≤ ${option.maximum}`,
      option.exclusiveMaximum === undefined || option.exclusiveMaximum > 2 ** 40 ? "" : `< ${option.exclusiveMaximum}`,
    ].filter((text) => text !== "");
    return [KINDS[option.type ?? ""] ?? (option.properties ? "mapping" : "any"), ...bounds].join(", ");
  });
  return [...new Set(words)].join(" or ");
}

/** The default as it would be written; null: there is none. */
export function defaultText(node: SchemaNode): string | null {
  const value = node.default;
  if (value === undefined || value === null) return null;
  if (typeof value !== "object") return String(value);
  const text = JSON.stringify(value);
  return text.length > 60 || text === "{}" || text === "[]" ? null : text;
}

/** The description without the line breaks of its source. */
export const descriptionOf = (node: SchemaNode): string => (node.description ?? "").replace(/\s+/g, " ").trim();
