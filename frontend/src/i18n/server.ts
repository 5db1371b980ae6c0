/** Texts for what the server says by stable codes. In English its own sentences stand for themselves. */
import i18next from "i18next";

export const SERVER = "server";
type Kind = "errors" | "terminations" | "events";

/** The tables of a language, as i18next keeps them: codes hold dots, so they are no path. */
export function addServerTexts(language: string, texts: Record<Kind, Readonly<Record<string, string>>>): void {
  const flat = Object.entries(texts).flatMap(([kind, table]) => Object.entries(table).map(([code, text]) => [`${kind} ${code}`, text]));
  i18next.addResourceBundle(language, SERVER, Object.fromEntries(flat));
}

/** What stands for a code in the language of the page; null where the server's own words do. */
export function said(kind: Kind, code: string | null | undefined): string | null {
  const found: unknown = code ? i18next.getResource(i18next.language, SERVER, `${kind} ${code}`, { keySeparator: false }) : undefined;
  return typeof found === "string" ? found : null;
}
