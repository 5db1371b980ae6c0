import { useMemo } from "react";

import { differences, FIRST_GROUP, type Group, groupBy, groupKey, MAX_TRIALS, settingsOf } from "./compareData";
import type { Compared } from "./TrialChips";

export interface Groups {
  key: string | undefined;
  /** There are too many trials for lines of their own. */
  isNeeded: boolean;
  keys: string[];
  groups: Group[] | null;
}

/** What trials are grouped by, and what they can be: with too many for lines of their own, always by something. */
export function useGroups(compared: readonly Compared[], asked: string | undefined): Groups {
  return useMemo(() => {
    const settings = compared.map(({ id, trial }) => ({ id, settings: settingsOf(trial) }));
    const isNeeded = compared.length > MAX_TRIALS;
    const differing = differences(settings.map((one) => one.settings)).flatMap((row) => (row.differs ? [row.key] : []));
    const key = asked ?? (isNeeded ? groupKey(settings, differing) : undefined);
    return {
      key,
      isNeeded,
      keys: [...new Set([...(isNeeded && differing.length === 0 ? [FIRST_GROUP] : []), ...differing])],
      groups: key === undefined ? null : groupBy(settings, key),
    };
  }, [compared, asked]);
}
