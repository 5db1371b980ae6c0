import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";

import type { FieldError } from "../../api/client";
import { fieldText } from "../../components/text/Message";
import { documentHelp } from "./complete";
import type { SchemaNode } from "./schema";
import { lineOfPath } from "./yamlTree";

// Comes with the editor, which has the parser.
export { default as DocumentForm } from "./DocumentForm";
export { FOR_ALL_STRATEGIES, withSetting } from "./setting";

const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "transparent", fontSize: "13px", minHeight: "420px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": {
    fontFamily: "var(--mantine-font-family-monospace)",
    lineHeight: "1.6",
    minHeight: "420px",
    maxHeight: "70vh",
  },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": {
    backgroundColor: "var(--panel)",
    color: "var(--text-3)",
    border: "none",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent) !important",
  },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad)",
    textUnderlineOffset: "3px",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    color: "var(--text)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": {
    fontFamily: "var(--mantine-font-family-monospace)",
    fontSize: "12px",
    maxHeight: "16em",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 8px" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--accent-soft) !important",
    color: "var(--text) !important",
  },
  ".cm-completionDetail": { color: "var(--text-2)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "600" },
  ".cm-completionInfo": { padding: "0 !important", maxWidth: "340px !important" },
  ".muster-help": {
    fontFamily: "var(--mantine-font-family)",
    fontSize: "12px",
    padding: "8px 10px",
    maxWidth: "380px",
  },
  ".muster-help b": { fontFamily: "var(--mantine-font-family-monospace)", fontWeight: "600" },
  ".muster-help p": { margin: "2px 0 4px", whiteSpace: "normal" },
  ".muster-help small": { color: "var(--text-2)" },
  ".cm-diagnostic": { fontFamily: "var(--mantine-font-family)", padding: "6px 10px", borderLeftWidth: "3px" },
});
const highlight = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: tags.definition(tags.propertyName), color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--warn)" },
  { tag: tags.comment, color: "var(--text-3)" },
  { tag: tags.punctuation, color: "var(--text-2)" },
]);

/** The line of an error, from 1: what does not parse has no path, but the message names the line. */
function lineOf(text: string, error: FieldError): number {
  const found = lineOfPath(text, error.path);
  return found === null ? Math.max(1, Number(/\(line (\d+)\b/.exec(error.message)?.[1] ?? 1)) : found + 1;
}

interface Props {
  value: string;
  label: string;
  /** Of the document, for completion and help; not known yet while undefined. */
  schema: SchemaNode | undefined;
  errors: readonly FieldError[];
  /** Path whose line is to be shown and selected, with a counter so that the same one can be asked for twice. */
  focus: { path: string; nonce: number } | null;
  onChange: (value: string) => void;
  onSubmit: () => void;
}

/**
 * CodeMirror writes its styles through <style> elements, which the content security policy forbids;
 * inside a shadow root it uses constructed style sheets, which are allowed.
 */
export default function Editor({ value, label, schema, errors, focus, onChange, onSubmit }: Props) {
  const { t } = useTranslation();
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const handlers = useRef({ onChange, onSubmit });
  handlers.current = { onChange, onSubmit };
  const initial = useRef({ value, label });
  const help = useRef(new Compartment());
  /** Texts that the page has been told of and has not given back yet, oldest first. */
  const told = useRef<string[]>([]);

  useEffect(() => {
    const element = host.current;
    if (!element) return undefined;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const mount = document.createElement("div");
    root.replaceChildren(mount);
    view.current = new EditorView({
      parent: mount,
      root,
      state: EditorState.create({
        doc: initial.current.value,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of("  "),
          highlightActiveLine(),
          lintGutter(),
          yaml(),
          syntaxHighlighting(highlight),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": initial.current.label, "data-testid": "submit-editor" }),
          help.current.of([]),
          keymap.of([
            {
              key: "Mod-Enter",
              run: () => {
                handlers.current.onSubmit();
                return true;
              },
            },
            // Tab indents; Escape then Tab leaves the editor (CodeMirror's own rule).
            indentWithTab,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            const text = update.state.doc.toString();
            told.current.push(text);
            handlers.current.onChange(text);
          }),
        ],
      }),
    });
    return () => {
      view.current?.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    if (!schema) return;
    const words = { defaultIs: (usual: string) => t("submit.usual", { value: usual }) };
    view.current?.dispatch({ effects: help.current.reconfigure(documentHelp(schema, words)) });
  }, [schema, t]);

  // A template or another experiment's document replaces the text. The editor's own text may come
  // back when more has been typed already: replacing by that would take the newer letters away.
  useEffect(() => {
    const editor = view.current;
    const at = told.current.indexOf(value);
    told.current = told.current.slice(at + 1);
    if (!editor || at >= 0 || editor.state.doc.toString() === value) return;
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    const { doc } = editor.state;
    const diagnostics: Diagnostic[] = errors.map((error) => {
      const line = doc.line(Math.min(doc.lines, lineOf(doc.toString(), error)));
      const indent = line.text.length - line.text.trimStart().length;
      return {
        from: line.from + indent,
        to: Math.max(line.from + indent, line.to),
        severity: "error",
        message: `${error.path}: ${fieldText(error)}`,
      };
    });
    editor.dispatch(setDiagnostics(editor.state, diagnostics));
  }, [errors]);

  useEffect(() => {
    const editor = view.current;
    if (!editor || !focus) return;
    const found = lineOfPath(editor.state.doc.toString(), focus.path);
    if (found === null) return;
    const line = editor.state.doc.line(found + 1);
    editor.dispatch({ selection: { anchor: line.from, head: line.to }, scrollIntoView: true });
    editor.focus();
  }, [focus]);

  return <div ref={host} data-testid="submit-editor-host" data-keys="editor" />;
}
