/** Who may do what, as the server has it. It decides; this only leaves out what it would refuse. */
import type { Me } from "../api/queries";

/** Its owner and administrators change an experiment; viewers change nothing. */
export function mayChange(user: Pick<Me, "role" | "username"> | undefined, owner: string | null): boolean {
  return user?.role === "admin" || (user?.role === "member" && owner === user.username);
}

/** Characters a password has at least; the server holds it against what is set. */
export const MIN_PASSWORD = 12;
