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
  "join",
  "retention",
] as const;
const ADMIN: readonly string[] = ["users", "join", "retention"];

/** The tabs that somebody with this role sees. */
export const settingsTabs = (role: string | undefined) => ALL.filter((tab) => role === "admin" || !ADMIN.includes(tab));
