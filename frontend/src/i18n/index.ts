import i18next from "i18next";
import { initReactI18next } from "react-i18next";

import { type DurationUnit, nameUnits } from "../lib/format";
import { readPref, writePref } from "../lib/prefs";
import { en } from "./en";
import type { pages } from "./en/pages";
import { addServerTexts } from "./server";

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "translation";
    resources: { translation: typeof en & typeof pages };
    returnNull: false;
  }
}

void i18next.use(initReactI18next).init({
  lng: "en",
  fallbackLng: "en",
  initAsync: false,
  resources: { en: { translation: en } },
  interpolation: { escapeValue: false }, // React escapes
  returnNull: false,
});

/** Units of durations where they have other names than in English. */
const UNITS: Record<Language, Partial<Record<DurationUnit, string>>> = {
  en: {},
  "zh-CN": { s: "秒", min: "分钟", h: "小时", d: "天" },
};

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

const LOAD: Record<Language, () => Promise<void>> = {
  en: async () => {
    const { pages } = await import("./en/pages");
    i18next.addResourceBundle("en", "translation", pages, true);
  },
  "zh-CN": async () => {
    const [{ zhCN }, server, reasons] = await Promise.all([
      import("./zh-CN"),
      import("./zh-CN/server"),
      import("./zh-CN/reasons"),
    ]);
    i18next.addResourceBundle("zh-CN", "translation", zhCN);
    addServerTexts("zh-CN", { ...server, ...reasons });
  },
};
const loading = new Map<Language, Promise<void>>();
let shown: Language = preferredLanguage();

/** Add all texts of a language. What could not be fetched is fetched again by the next call. */
function load(language: Language): Promise<void> {
  let texts = loading.get(language);
  if (!texts) {
    texts = LOAD[language]();
    loading.set(language, texts);
    texts.catch(() => loading.delete(language));
  }
  return texts;
}

/** Code that comes after the first download, with the texts that it shows: they are fetched side by side. */
export async function withTexts<Code>(code: Promise<Code>): Promise<Code> {
  const [module] = await Promise.all([code, load(shown)]);
  return module;
}

async function show(language: Language): Promise<void> {
  shown = language;
  document.documentElement.lang = language;
  nameUnits(UNITS[language]);
  await i18next.changeLanguage(language);
}

/** Choose the language of the first page. The frame needs no texts in English that are not here already. */
export async function initI18n(language: Language = preferredLanguage()): Promise<void> {
  if (language !== "en") await load(language);
  await show(language);
}

export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  writePref("language", language);
  await show(language);
}
