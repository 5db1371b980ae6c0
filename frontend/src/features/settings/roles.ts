export const ROLES = ["viewer", "member", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** A token is never above its owner. Anybody may make one that can read the server's metrics and nothing else. */
export function rolesUpTo(role: Role | undefined): (Role | "metrics")[] {
  return ["metrics", ...ROLES.slice(0, ROLES.indexOf(role ?? "viewer") + 1)];
}
