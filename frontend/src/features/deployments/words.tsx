import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";

import type { DeploymentItem, Replica, Revision } from "../../api/queries";

const COLORS: Record<DeploymentItem["state"] | Replica["phase"] | Revision["state"], string> = {
  starting: "blue",
  ready: "green",
  updating: "blue",
  degraded: "yellow",
  unavailable: "red",
  stopping: "gray",
  stopped: "gray",
  serving: "green",
  draining: "yellow",
  ended: "gray",
  rolling_out: "blue",
  replaced: "gray",
  failed: "red",
};

/** The state of a deployment, a replica or a revision. */
export function DeploymentState({ state }: { state: keyof typeof COLORS }) {
  const { t } = useTranslation();
  return (
    <Badge size="sm" variant="light" color={COLORS[state]} tt="none" data-state={state}>
      {t(`deployments.states.${state}`)}
    </Badge>
  );
}
