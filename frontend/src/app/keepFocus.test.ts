import { afterEach, beforeEach, expect, test } from "vitest";

import { keepFocus } from "./keepFocus";

let stop = (): void => {};
beforeEach(() => {
  document.body.innerHTML =
    '<main id="main" tabindex="-1"><div><a href="/">first</a><button id="chip">chip</button></div>' +
    '<button id="opener">open</button></main><div id="portal"></div>';
  stop = keepFocus(() => document.getElementById("main"));
});
afterEach(() => stop());
const find = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const soon = (): Promise<void> => new Promise((done) => setTimeout(done, 100));

test("a dialog that was opened from a menu gives the focus back to what opened the menu", async () => {
  find("opener").focus();
  find("portal").innerHTML = '<div role="menu"><button id="item">delete</button></div>';
  find("item").focus();
  find("portal").innerHTML = '<div role="dialog"><button id="cancel">cancel</button></div>';
  find("cancel").focus();
  await soon();
  expect(document.activeElement).toBe(find("cancel"));
  find("portal").innerHTML = "";
  await soon();
  expect(document.activeElement).toBe(find("opener"));
});

test("what vanishes leaves the focus beside it, else on the page's content", async () => {
  find("chip").focus();
  find("chip").remove();
  await soon();
  expect(document.activeElement).toHaveTextContent("first");
  find("opener").focus();
  find("opener").remove();
  await soon();
  expect(document.activeElement).toBe(find("main"));
});

test("a button that was disabled while it waited has the focus again", async () => {
  const button = find("chip") as HTMLButtonElement;
  button.focus();
  button.blur();
  button.disabled = true;
  await soon();
  expect(document.activeElement).toBe(document.body);
  button.disabled = false;
  await soon();
  expect(document.activeElement).toBe(button);
});

test("who moved the focus on is left alone", async () => {
  find("chip").focus();
  find("chip").remove();
  find("opener").focus();
  await soon();
  expect(document.activeElement).toBe(find("opener"));
});
