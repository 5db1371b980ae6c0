import { Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import type { Node, Slot } from "../../../api/queries";
import { Clamped } from "../../../components/basics";
import { stateWord } from "../../../components/StateBadge";
import { word } from "../../../i18n/words";
import { seriesIndex } from "../../../lib/states";
import css from "../cluster.module.css";

const MAX_KEYS = 12;
const dashed = (id: number): boolean => Math.floor(id / 6) % 2 === 1;

/** Why nothing is placed on a node now; null while it takes work. A word of a newer server stays as it is. */
export function unavailableWord(t: TFunction, { unavailable }: Pick<Node, "unavailable">): string | null {
  return unavailable === null
    ? null
    : word(t, "slot.unavailable", unavailable, stateWord(t, unavailable.toUpperCase()).toLowerCase());
}

/** Every node a row, every slot a cell in the colour of the experiment that holds it. */
export function SlotStrip({ nodes }: { nodes: Node[] }) {
  const { t } = useTranslation();
  const running = new Map<number, string>();
  for (const node of nodes) {
    for (const slot of node.slots) {
      if (slot.experiment_id !== null)
        running.set(slot.experiment_id, slot.experiment_name ?? `#${slot.experiment_id}`);
    }
  }
  return (
    <>
      <div className={css["strip"]} data-testid="slot-strip">
        {nodes.map((node) => (
          <div key={node.id} className={css["row"]} data-off={node.state !== "ONLINE" || undefined}>
            <Link to="/nodes/$nodeId" params={{ nodeId: node.id }} title={`${node.name} · ${stateWord(t, node.state)}`}>
              {node.name}
            </Link>
            <span className={css["used"]}>
              {node.state === "ONLINE" ? `${node.num_slots_used}/${node.num_slots}` : stateWord(t, node.state)}
            </span>
            <div className={css["slots"]}>
              {node.slots.map((slot) => (
                <SlotCell key={slot.index} node={node} slot={slot} />
              ))}
              {node.state === "ONLINE" && node.unavailable !== null ? (
                <span className={css["closedWord"]}>{unavailableWord(t, node)}</span>
              ) : null}
            </div>
          </div>
        ))}
      </div>
      {running.size > 0 ? (
        <div className={css["legend"]}>
          {[...running].slice(0, MAX_KEYS).map(([id, name]) => (
            <span key={id}>
              <i style={{ background: `var(--series-${seriesIndex(id)})` }} />
              <Link to="/experiments/$experimentId" params={{ experimentId: String(id) }}>
                <Clamped text={name} />
              </Link>
            </span>
          ))}
          {running.size > MAX_KEYS ? <span>{t("chart.moreLines", { n: running.size - MAX_KEYS })}</span> : null}
          <span>
            <i className={css["freeKey"]} />
            {t("slot.free")}
          </span>
        </div>
      ) : null}
    </>
  );
}

export function SlotCell({ node, slot }: { node: Node; slot: Slot }) {
  const { t } = useTranslation();
  const where = t("slot.where", { node: node.name, index: slot.index, name: slot.name || slot.slot_type });
  if (slot.trial_id === null || slot.experiment_id === null) {
    const closed = unavailableWord(t, node) ?? (slot.problem || null);
    const word = closed === null ? t("slot.free") : t("slot.closed", { why: closed });
    return (
      <Tooltip label={`${where} · ${word}`}>
        <span
          className={css["slot"]}
          data-off={closed === null ? undefined : true}
          role="img"
          aria-label={`${where}: ${word}`}
        />
      </Tooltip>
    );
  }
  const label = t("slot.held", {
    name: slot.experiment_name ?? `#${slot.experiment_id}`,
    trial: slot.trial_id,
    rank: slot.rank ?? "–",
  });
  return (
    <Tooltip label={`${where} · ${label}`}>
      <Link
        to="/trials/$trialId"
        params={{ trialId: String(slot.trial_id) }}
        className={css["slot"]}
        data-series={seriesIndex(slot.experiment_id)}
        data-dashed={dashed(slot.experiment_id) || undefined}
        style={{ backgroundColor: `var(--series-${seriesIndex(slot.experiment_id)})` }}
        aria-label={`${where}: ${label}`}
      >
        {slot.rank ?? ""}
      </Link>
    </Tooltip>
  );
}
