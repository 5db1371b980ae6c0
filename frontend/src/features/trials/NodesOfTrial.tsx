import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Worker } from "../../api/queries";
import { Section } from "../../components/basics";
import { SystemMetricsView } from "../../common/nodes/SystemMetrics";

/** Beyond these a click on the node shows the rest. */
const MAX_NODES = 8;

/** How busy the nodes are on which a trial runs; folded up until somebody wants to know. */
export function NodesOfTrial({ trialId, workers }: { trialId: number; workers: Worker[] }) {
  const { t } = useTranslation();
  const names = [...new Set(workers.filter((w) => w.ended_at === null).map((w) => w.node_name))];
  if (names.length === 0) return null;
  return (
    <Section title={t("nodes.system")} note={t("nodes.systemNote")}>
      {names.slice(0, MAX_NODES).map((name) => (
        <Folded key={name} name={name} trialId={trialId} />
      ))}
      {names.length > MAX_NODES ? (
        <p className="dim">{t("nodes.busy.some", { shown: MAX_NODES, all: names.length })}</p>
      ) : null}
    </Section>
  );
}

/** Asks for nothing while it is closed. */
function Folded({ name, trialId }: { name: string; trialId: number }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{name}</summary>
      {open ? <SystemMetricsView node={name} trialId={trialId} /> : null}
    </details>
  );
}
