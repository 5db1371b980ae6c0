import i18next from "i18next";
import { initReactI18next } from "react-i18next";

import { readPref, writePref } from "../lib/prefs";
import { en } from "./en";
import type { Late } from "./en/late";
import { addServerTexts } from "./server";

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof en & Late };
    returnNull: false;
  }
}

/** Texts that came with the code of a page, before or after the rest. */
const late: object[] = [];

/** English texts of a page that is fetched when it is visited; its code calls this once. */
export function addEnglish(texts: object): void {
  late.push(texts);
  if (i18next.isInitialized) i18next.addResourceBundle("en", "translation", texts, true);
}

const isLanguage = (value: string | null): value is Language => value !== null && value in LANGUAGES;

/** The stored choice, else the browser's first language that we speak. */
export function preferredLanguage(): Language {
  const stored = readPref("language");
  if (isLanguage(stored)) return stored;
  for (const language of navigator.languages ?? []) {
    if (language.toLowerCase().startsWith("zh")) return "zh-CN";
    if (language.toLowerCase().startsWith("en")) return "en";
  }
  return "en";
}

async function load(language: Language): Promise<void> {
  if (language === "en" || i18next.hasResourceBundle(language, "translation")) return;
  const { zhCN, server, reasons } = await import("./zh-CN");
  i18next.addResourceBundle(language, "translation", zhCN);
  addServerTexts(language, { ...server, ...reasons });
}

export async function initI18n(language: Language = preferredLanguage()): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: "en",
    fallbackLng: "en",
    resources: { en: { translation: en } },
    interpolation: { escapeValue: false }, // React escapes
    returnNull: false,
  });
  for (const texts of late) i18next.addResourceBundle("en", "translation", texts, true);
  await load(language);
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  writePref("language", language);
  document.documentElement.lang = language;
  await i18next.changeLanguage(language);
}
