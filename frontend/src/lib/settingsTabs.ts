/** The tabs of the settings, in their order. */
const ALL = [
  "profile",
  "notifications",
  "tokens",
  "secrets",
  "password",
  "projects",
  "pools",
  "users",
  "groups",
  "join",
  "retention",
  "audit",
  "system",
] as const;
const ADMIN: readonly string[] = ["users", "join", "retention", "audit"];

export type SettingsTab = (typeof ALL)[number];

/** Whether somebody with this role may open a tab. */
export const mayOpen = (tab: string, role: string | undefined): boolean => role === "admin" || !ADMIN.includes(tab);

/** The tabs that somebody with this role sees. */
export const settingsTabs = (role: string | undefined): SettingsTab[] => ALL.filter((tab) => mayOpen(tab, role));

/** The tab of an address, also one that is not for this role; without one, or with one that is none, the first. */
export const tabOf = (asked: string | undefined): SettingsTab => ALL.find((tab) => tab === asked) ?? "profile";
