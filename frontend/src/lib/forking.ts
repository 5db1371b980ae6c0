/** What a fork starts from, as the submit page has it in its address and as the API takes it. Pure. */
import type { Schemas } from "../api/client";

type From = Schemas["ForkFromIn"];
export type Load = "all" | "weights";
/** "": from nothing. A number: the id of a checkpoint. */
export type Start = "" | "latest" | "best" | number;

export function startOf(text: string | undefined): Start {
  if (text === "latest" || text === "best") return text;
  const id = Number(text);
  return text !== undefined && Number.isInteger(id) && id > 0 ? id : "";
}

/** One override that a link to the submit page may bring along: path=value. */
export function overrideOf(text: string | undefined): string | undefined {
  return text !== undefined && /^\w+(\.\w+)*=.{1,500}$/.test(text) ? text : undefined;
}

/** null: from nothing, or what the document says. */
export function forkFrom(experimentId: number, start: Start, load: Load): From | null {
  if (start === "") return null;
  if (typeof start === "number") return { checkpoint: start, pick: "latest", load };
  return { experiment: experimentId, pick: start, load };
}

/** The same as the override that the server makes of it, for the preview. */
export function asOverride(from: From | null): string[] {
  return from === null ? [] : [`from=${JSON.stringify(from)}`];
}
