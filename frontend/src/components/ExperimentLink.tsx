import { Link } from "@tanstack/react-router";

import { Clamped } from "./basics";

interface Target {
  id: number;
  name: string;
  only_trial_id: number | null;
}

/** To the page of an experiment, which is its trial's page when it can have only one. */
export function ExperimentLink({ item }: { item: Target }) {
  return item.only_trial_id ? (
    <Link to="/trials/$trialId" params={{ trialId: String(item.only_trial_id) }}>
      <Clamped text={item.name} />
    </Link>
  ) : (
    <Link to="/experiments/$experimentId" params={{ experimentId: String(item.id) }}>
      <Clamped text={item.name} />
    </Link>
  );
}
