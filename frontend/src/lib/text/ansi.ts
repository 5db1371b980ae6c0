/** Log text with colours but nothing else a terminal would obey. */
import Anser from "anser";

export interface Span {
  text: string;
  className: string;
}

// Everything that is not a colour sequence: cursor movement, OSC (titles, links), other escapes and
// control characters. They must neither show as noise nor do anything.
const OSC = /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/g;
const CSI = /\u001b\[[0-9;?<=>!]*[ -/]*([@-~])/g;
const OTHER = /\u001b[^[\]]?/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

/** A progress bar rewrites its line with carriage returns; the last writing counts. */
export function lastWriting(text: string): string {
  const trimmed = text.replace(/\r+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}

export function parseAnsi(raw: string): Span[] {
  const text = lastWriting(raw)
    .replace(OSC, "")
    .replace(CSI, (sequence, final: string) => (final === "m" ? sequence : ""))
    .replace(CONTROL, "");
  if (!text.includes("\u001b[")) return [{ text: text.replace(OTHER, ""), className: "" }];
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true, json: true }).map((part) => ({
    text: part.content.replace(OTHER, ""),
    className: [part.fg ? `${part.fg}-fg` : "", ...part.decorations.map((d) => `ansi-${d}`)].filter(Boolean).join(" "),
  }));
}
