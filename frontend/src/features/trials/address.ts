/** The address of a trial's page: its own, or that of the experiment whose only trial it is. */
import { useNavigate, useSearch } from "@tanstack/react-router";

import type { TrialSearch } from "../../app/search";

/** Return what the address holds, and what changes it without a new entry in the history. */
export function useTrialSearch(): [TrialSearch, (change: Partial<TrialSearch>) => void] {
  // The router knows the search of every page here; both pages that show a trial read it alike.
  const search = useSearch({ strict: false }) as TrialSearch;
  const navigate = useNavigate();
  const set = (change: Partial<TrialSearch>): void => {
    const next = (before: TrialSearch): TrialSearch => ({ ...before, ...change });
    void navigate({ to: ".", search: next as never, replace: true });
  };
  return [search, set];
}
