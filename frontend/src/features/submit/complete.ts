/** Completion and help of the editor, from the schema of the document. */
import {
  acceptCompletion,
  autocompletion,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
  startCompletion,
} from "@codemirror/autocomplete";
import type { Extension } from "@codemirror/state";
import { Prec } from "@codemirror/state";
import { type EditorView, hoverTooltip, keymap } from "@codemirror/view";

import { nearest } from "./nearest";
import {
  defaultText,
  descriptionOf,
  type KeyInfo,
  keysAt,
  kindText,
  nodeAt,
  type SchemaNode,
  valuesAt,
} from "./schema";
import { contextAt, keyUnder } from "./yamlContext";

export interface HelpWords {
  defaultIs: (value: string) => string;
}

const MAX_OPTIONS = 60;

/** What could stand at the cursor; null: nothing is known. */
export function completionsAt(
  schema: SchemaNode,
  words: HelpWords,
  text: string,
  pos: number,
): { from: number; options: Completion[] } | null {
  const at = contextAt(text, pos);
  if (!at) return null;
  const options = at.kind === "key" ? keyOptions(schema, words, at) : valueOptions(schema, words, at.path, at.word);
  return options.length > 0 ? { from: at.from, options: options.slice(0, MAX_OPTIONS) } : null;
}

function keyOptions(schema: SchemaNode, words: HelpWords, at: NonNullable<ReturnType<typeof contextAt>>): Completion[] {
  const free = keysAt(schema, at.path).filter(({ name }) => !at.siblings.includes(name));
  return nearest(at.word, free, ({ name }) => name).map((key) => ({
    label: key.name,
    type: key.isSection ? "namespace" : "property",
    detail: key.isSection ? undefined : (defaultText(key.node) ?? undefined),
    info: () => helpOf(schema, key.node, words),
    apply: (view, _completion, from, to) => {
      const typed = view.state.doc.sliceString(to, to + 1);
      insertKey(view, key, from, to, typed === ":" ? "" : suffixOf(view, key, from, at.isFlow));
    },
  }));
}

/** What follows a key: a line further in for a section, a blank for a value. */
function suffixOf(view: EditorView, key: KeyInfo, from: number, isFlow: boolean): string {
  if (!key.isSection) return ": ";
  if (isFlow) return ": {}";
  const line = view.state.doc.lineAt(from);
  return `:\n${" ".repeat(from - line.from + 2)}`;
}

function insertKey(view: EditorView, key: KeyInfo, from: number, to: number, suffix: string): void {
  const insert = key.name + suffix;
  const cursor = from + insert.length - Number(suffix.endsWith("}"));
  view.dispatch({ changes: { from, to, insert }, selection: { anchor: cursor }, userEvent: "input.complete" });
  if (suffix !== "") startCompletion(view);
}

function valueOptions(schema: SchemaNode, words: HelpWords, path: readonly string[], word: string): Completion[] {
  const node = nodeAt(schema, path);
  if (!node) return [];
  const usual = defaultText(node);
  return nearest(word, valuesAt(schema, path), (value) => value).map((value) => ({
    label: value,
    type: "enum",
    boost: value === usual ? 1 : 0,
    info: () => helpOf(schema, node, words),
  }));
}

/** What a key means: its description, what it holds, and its default. */
function helpOf(schema: SchemaNode, node: SchemaNode, words: HelpWords, name?: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "muster-help";
  box.lang = "en";
  const add = (tag: string, text: string): void => {
    if (text === "") return;
    const line = document.createElement(tag);
    // Backticks enclose code.
    for (const [i, piece] of text.split("`").entries()) {
      const part = i % 2 === 1 ? document.createElement("code") : document.createTextNode(piece);
      if (i % 2 === 1) part.textContent = piece;
      line.append(part);
    }
    box.append(line);
  };
  if (name) add("b", name);
  add("p", descriptionOf(node));
  const usual = defaultText(node);
  add("small", [kindText(schema, node), usual === null ? "" : words.defaultIs(usual)].filter(Boolean).join(" · "));
  return box;
}

/** Completion while typing and on Ctrl+Space, and the meaning of the key under the pointer. */
export function documentHelp(schema: SchemaNode, words: HelpWords): Extension {
  const source = (context: CompletionContext): CompletionResult | null => {
    const found = completionsAt(schema, words, context.state.doc.toString(), context.pos);
    // An empty line offers nothing by itself: Enter is to make one.
    if (!found || (!context.explicit && found.from === context.pos && !isAfterKey(context))) return null;
    // What is there already is not offered again: Enter is to begin a new line.
    const typed = context.state.sliceDoc(found.from, context.pos);
    if (!context.explicit && found.options.some(({ label }) => label === typed)) return null;
    return { from: found.from, options: found.options, filter: false };
  };
  return [
    autocompletion({ override: [source], icons: false, closeOnBlur: true }),
    Prec.high(keymap.of([...completionKeymap, { key: "Tab", run: acceptCompletion }])),
    hoverTooltip((view, pos) => {
      const found = keyUnder(view.state.doc.toString(), pos);
      const node = found ? nodeAt(schema, found.path) : null;
      if (!found || !node) return null;
      return {
        pos: found.from,
        end: found.to,
        above: true,
        create: () => ({ dom: helpOf(schema, node, words, found.path.join(".")) }),
      };
    }),
  ];
}

const isAfterKey = (context: CompletionContext): boolean =>
  /:\s+$/.test(context.state.sliceDoc(Math.max(0, context.pos - 40), context.pos));
