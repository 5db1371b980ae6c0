export const ROLES = ["viewer", "member", "admin"] as const;
export type Role = (typeof ROLES)[number];

/**
 * A token is never above its owner. Anybody may make one that can read the server's metrics and nothing else, and
 * members one that can send requests to deployments.
 */
export function rolesUpTo(role: Role | undefined): (Role | "predict" | "metrics")[] {
  const predict = role === "member" || role === "admin" ? (["predict"] as const) : [];
  return ["metrics", ...predict, ...ROLES.slice(0, ROLES.indexOf(role ?? "viewer") + 1)];
}
