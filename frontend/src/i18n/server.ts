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

/** Behind this the next part follows, or the server's own words. */
export const COLON = "：";
