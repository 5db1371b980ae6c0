export const ROLES = ["viewer", "member", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** A token is never above its owner. */
export function rolesUpTo(role: Role | undefined): Role[] {
  return ROLES.slice(0, ROLES.indexOf(role ?? "viewer") + 1);
}
