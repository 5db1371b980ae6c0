import { cleanup, fireEvent, render } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";

import { openFirst } from "./openFirst";

afterEach(cleanup);

function menu(chosen: string | null) {
  const opened = vi.fn();
  const { getByRole } = render(
    <div role="dialog">
      <input onKeyDown={openFirst} />
      {["first", "second"].map((name) => (
        <button key={name} data-action data-selected={name === chosen || undefined} onClick={() => opened(name)}>
          {name}
        </button>
      ))}
    </div>,
  );
  return { opened, field: getByRole("textbox") };
}

test("Enter opens the first entry when none is chosen, as when entries arrive after the last key", () => {
  const { opened, field } = menu(null);
  fireEvent.keyDown(field, { key: "a" });
  expect(opened).not.toHaveBeenCalled();
  fireEvent.keyDown(field, { key: "Enter" });
  expect(opened.mock.calls).toEqual([["first"]]);
});

test("a chosen entry is left to the menu", () => {
  const one = menu("second");
  fireEvent.keyDown(one.field, { key: "Enter" });
  expect(one.opened).not.toHaveBeenCalled();
});

test("Enter that ends the composing of a word opens nothing", () => {
  const { opened, field } = menu(null);
  fireEvent.keyDown(field, { key: "Enter", isComposing: true });
  expect(opened).not.toHaveBeenCalled();
});
