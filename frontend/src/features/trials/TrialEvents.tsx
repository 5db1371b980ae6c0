import { useInfiniteQuery } from "@tanstack/react-query";

import { trialEvents } from "../../api/queries";
import { Events } from "../../components/Events";

export function TrialEvents({ trialId }: { trialId: number }) {
  return <Events query={useInfiniteQuery(trialEvents(trialId))} />;
}
