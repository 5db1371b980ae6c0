import { EditorView } from "@codemirror/view";
import { render } from "@testing-library/react";
import { expect, test } from "vitest";

import Editor from "./editor";

// jsdom lays nothing out, and the editor asks where its lines are.
Range.prototype.getClientRects = () => [] as unknown as DOMRectList;

function mount(value: string, onChange: (text: string) => void) {
  const editor = (text: string) => (
    <Editor
      value={text}
      label="Document"
      schema={undefined}
      errors={[]}
      focus={null}
      onChange={onChange}
      onSubmit={() => {}}
    />
  );
  const { container, rerender } = render(editor(value));
  const content = container
    .querySelector("[data-testid=submit-editor-host]")
    ?.shadowRoot?.querySelector<HTMLElement>(".cm-content");
  const view = content ? EditorView.findFromDOM(content) : null;
  if (!view) throw new Error("There is no editor.");
  const type = (text: string): void => view.dispatch({ changes: { from: view.state.doc.length, insert: text } });
  return { text: () => view.state.doc.toString(), type, give: (text: string) => rerender(editor(text)) };
}

test("a letter typed before the page has drawn the one before it stays", () => {
  const told: string[] = [];
  const { text, type, give } = mount("", (now) => told.push(now));
  type("r");
  type("e");
  type("s");
  expect(told).toEqual(["r", "re", "res"]);
  give("r"); // the page is behind
  expect(text()).toBe("res");
  give("res");
  type("o");
  give("reso");
  expect(text()).toBe("reso");
});

test("a document from elsewhere replaces the text, also one that was typed before", () => {
  const { text, type, give } = mount("a", () => {});
  type("b");
  give("ab");
  give("template");
  expect(text()).toBe("template");
  give("ab");
  expect(text()).toBe("ab");
});
