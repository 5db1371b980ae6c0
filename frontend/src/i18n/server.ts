/** Texts for what the server says by stable codes. In English its own sentences stand for themselves. */
import i18next from "i18next";

export const SERVER = "server";
type Kind = "errors" | "terminations" | "events" | "parts" | "words";

/** A part of a sentence of the server: its code, and what it names. */
export interface Part {
  code: string;
  params: Readonly<Record<string, string | number>>;
}

/** The tables of a language, as i18next keeps them: codes hold dots, so they are no path. */
export function addServerTexts(language: string, texts: Record<Kind, Readonly<Record<string, string>>>): void {
  const flat = Object.entries(texts).flatMap(([kind, table]) =>
    Object.entries(table).map(([code, text]) => [`${kind} ${code}`, text]),
  );
  i18next.addResourceBundle(language, SERVER, Object.fromEntries(flat));
}

/** What stands for a code in the language of the page; null where the server's own words do. */
export function messageOf(kind: Kind, code: string | null | undefined): string | null {
  const found: unknown = code
    ? i18next.getResource(i18next.language, SERVER, `${kind} ${code}`, { keySeparator: false })
    : undefined;
  return typeof found === "string" ? found : null;
}

/** Parameters that are numbers of something, which have no separators. */
const NUMBERED: ReadonlySet<string> = new Set(["experiment", "trial_no"]);

/** A sentence put together from its parts; null where there are none, or one has no text in this language. */
export function messageParts(parts: readonly Part[] | undefined): string | null {
  let sentence = "";
  for (const { code, params } of parts ?? []) {
    const text = messageOf("parts", code);
    if (text === null) return null;
    const filled = text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
      const value = params[name] ?? "";
      if (typeof value === "string") return messageOf("words", value) ?? value;
      return NUMBERED.has(name) ? String(value) : value.toLocaleString("en-US");
    });
    sentence += sentence === "" || sentence.endsWith(COLON) ? filled : `，${filled}`;
  }
  return sentence || null;
}

/** The words of a language that name particulars: "rank {{rank}} on {{node}} …" → its pattern and its text. */
const templates = new Map<string, { pattern: RegExp; text: string }[]>();

function templatesOf(language: string): { pattern: RegExp; text: string }[] {
  const known = templates.get(language);
  if (known) return known;
  const table = (i18next.getResourceBundle(language, SERVER) ?? {}) as Record<string, string>;
  const found = Object.entries(table).flatMap(([key, text]) => {
    if (!key.startsWith("words ") || !key.includes("{{")) return [];
    const escaped = key.slice("words ".length).replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&");
    return { pattern: new RegExp(`^${escaped.replaceAll(/\{\{(\w+)\}\}/g, "(?<$1>.+?)")}$`, "s"), text };
  });
  if (Object.keys(table).length > 0) templates.set(language, found);
  return found;
}

function clauseOf(clause: string): string | null {
  const whole = messageOf("words", clause);
  if (whole !== null) return whole;
  for (const { pattern, text } of templatesOf(i18next.language)) {
    const groups = pattern.exec(clause)?.groups;
    if (groups)
      return text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => clauseOf(groups[name] ?? "") ?? groups[name] ?? "");
  }
  return null;
}

/** A sentence of the server that has no code, in the language of the page. It is made of clauses between semicolons,
 * and those without a text there stay as they are. Null: all do. */
export function clausesOf(text: string): string | null {
  const clauses = text.replace(/\.$/, "").split("; ");
  const own = clauses.map(clauseOf);
  if (own.every((one) => one === null)) return null;
  return clauses.map((clause, i) => `${i === 0 ? "" : own[i] === null ? "; " : "；"}${own[i] ?? clause}`).join("");
}

/** Behind this the next part follows, or the server's own words. */
export const COLON = "：";
