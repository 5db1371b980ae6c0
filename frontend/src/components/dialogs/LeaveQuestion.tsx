import { lazy, type ReactNode, Suspense } from "react";

// Where it cannot be loaded, what was written must not be lost to an error page.
const LeaveDialog = lazy<() => ReactNode>(() => import("./LeaveDialog").catch(() => ({ default: () => null })));

/** Asks before a page is left whose changes are not saved. */
export function LeaveQuestion({ isChanged }: { isChanged: boolean }) {
  return isChanged ? (
    <Suspense>
      <LeaveDialog />
    </Suspense>
  ) : null;
}
