import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { node as nodeQuery, type Node } from "../../../api/queries";
import { ConfirmAction } from "../../../components/dialogs/ConfirmAction";
import { heldBy } from "./nodeUse";
import layout from "../../../components/layout.module.css";

type Step = "cordoned" | "draining" | "open" | "release" | "remove";

/** Cordon, drain, open, release and remove a node; each says beforehand what will happen, and to which trials. */
export function NodeScheduling({ node }: { node: Node }) {
  const { t } = useTranslation();
  const [asked, setAsked] = useState<Step | null>(null);
  const button = (step: Step, label: string) => (
    <Button
      variant={step === "remove" ? "light" : "default"}
      color={step === "remove" ? "red" : undefined}
      onClick={() => setAsked(step)}
      data-testid={`node-${step}`}
    >
      {label}
    </Button>
  );
  return (
    <>
      {node.scheduling === "open" ? button("cordoned", t("nodes.cordon")) : null}
      {node.scheduling === "draining" ? null : button("draining", t("nodes.drain"))}
      {node.quarantine_reason ? button("release", t("nodes.release")) : null}
      {node.scheduling === "open" ? null : button("open", t("nodes.open"))}
      {node.state === "SUSPECT" || (node.num_slots_used === 0 && (node.state === "LOST" || node.scheduling !== "open"))
        ? button("remove", t("nodes.remove"))
        : null}
      {asked === null ? null : <Asked key={asked} node={node} step={asked} onClose={() => setAsked(null)} />}
    </>
  );
}

function Asked({ node: shown, step, onClose }: { node: Node; step: Step; onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  // The list goes on changing while the question stands.
  const node = useQuery(nodeQuery(shown.id)).data ?? shown;
  const path = { params: { path: { node_id: node.id } } };
  const run = async (): Promise<void> => {
    if (step === "remove") await unwrap(client.DELETE("/api/v1/nodes/{node_id}", path));
    else if (step === "release") await unwrap(client.POST("/api/v1/nodes/{node_id}:release", path));
    else await unwrap(client.PATCH("/api/v1/nodes/{node_id}", { ...path, body: { scheduling: step } }));
  };
  const held = heldBy(node);
  const actions: Record<Step, string> = {
    cordoned: t("nodes.cordon"),
    draining: t("nodes.drain"),
    open: t("nodes.open"),
    release: t("nodes.release"),
    remove: t("nodes.remove"),
  };
  return (
    <ConfirmAction
      onClose={onClose}
      title={t(`nodes.ask.${step}`, { name: node.name })}
      action={actions[step]}
      danger={step === "draining" || step === "remove"}
      run={run}
      changes={["nodes"]}
      onDone={step === "remove" ? () => navigate({ to: "/nodes" }) : undefined}
    >
      <div data-testid="node-effect">
        <p className={layout["text"]}>
          {step === "remove"
            ? t("nodes.removeText", { name: node.name })
            : step === "release"
              ? t(`nodes.effect.release.${node.scheduling}`)
              : t(`nodes.effect.${step}`, { count: held.length })}
        </p>
        {node.quarantine_reason && (step === "open" || step === "release") ? (
          <p className={`${layout["text"]} ${layout["aboveM"]}`}>
            {t("nodes.effect.was", { reason: node.quarantine_reason })}
          </p>
        ) : null}
        {held.length > 0 && step !== "open" && step !== "release" ? (
          <ul className={`${layout["bullets"]} ${layout["aboveM"]}`}>
            {held.map((entry) => (
              <li key={entry.trialId} className={layout["anywhere"]}>
                {entry.experimentName} · {t("slot.trial", { id: entry.trialId })} ·{" "}
                {t("trial.slots", { count: entry.slots.length })}
              </li>
            ))}
          </ul>
        ) : null}
      </div>
    </ConfirmAction>
  );
}
