import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { type TrialDetail, trialMetrics } from "../../api/queries";
import { isTerminal } from "../../lib/states";
import { homeOf, type TabName } from "./tabs";

/** A script that has just begun may be about to report its first metric. */
export const BEGINS_MS = 15_000;

/**
 * The tab that the page opens on. It is chosen once, when the names of the metrics are known: what is
 * being read does not go away when the first metric comes, unless the page has just been opened.
 */
export function useHome(data: TrialDetail): TabName | undefined {
  const names = useQuery(trialMetrics(data.id)).data?.names;
  const [isNew, setNew] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setNew(false), BEGINS_MS);
    return () => clearTimeout(timer);
  }, []);
  const chosen = useRef<TabName | undefined>(undefined);
  if (names === undefined || chosen.current !== undefined) return chosen.current;
  const home = homeOf(data, names.length > 0);
  const isOpen = isNew && home === "logs" && !isTerminal(data.state);
  if (!isOpen) chosen.current = home;
  return home;
}
