import { initI18n, type Language, withTexts } from "../i18n";

/** Show a language with the texts of all pages, which a lazy page would bring along. */
export async function showTexts(language: Language = "en"): Promise<void> {
  await initI18n(language);
  await withTexts(Promise.resolve());
}
