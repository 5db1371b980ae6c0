import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { Node } from "../../api/queries";
import { stateWord } from "../../components/StateBadge";
import css from "./cluster.module.css";
import { type HeatCell, heatGroups } from "./nodeHeat";

const LEGEND = [0, 0.25, 0.5, 0.75, 1];
const shade = (share: number): string => `color-mix(in srgb, var(--run) ${Math.round(share * 100)}%, var(--free))`;

/** Every node a cell, the darker the more of its slots are in use. */
export function NodeHeatMap({ nodes }: { nodes: Node[] }) {
  const { t } = useTranslation();
  return (
    <div data-testid="node-heat-map">
      {heatGroups(nodes).map((group) => (
        <div key={group.pool} className={css["heatGroup"]}>
          <h3>
            {group.pool}{" "}
            <span className="dim">
              {t("overview.nodesOnline", { online: group.online, all: group.cells.length })} ·{" "}
              {t("overview.slotsOf", { used: group.used, all: group.slots })}
            </span>
          </h3>
          <div className={css["heat"]}>
            {group.cells.map((cell) => (
              <Cell key={cell.id} cell={cell} />
            ))}
          </div>
        </div>
      ))}
      <div className={css["legend"]}>
        <span>
          0%
          {LEGEND.map((share) => (
            <i key={share} style={{ background: shade(share) }} />
          ))}
          100% {t("overview.ofSlots")}
        </span>
        <span>
          <i className={css["heatOff"]} />
          {t("slot.takesNone")}
        </span>
        <span>
          <i className={css["heatTrouble"]} />
          {t("overview.troubled")}
        </span>
      </div>
    </div>
  );
}

function Cell({ cell }: { cell: HeatCell }) {
  const { t } = useTranslation();
  const label = `${cell.name}: ${stateWord(t, cell.state)}, ${t("overview.slotsOf", { used: cell.used, all: cell.slots })}`;
  return (
    <Link
      to="/nodes/$nodeId"
      params={{ nodeId: cell.id }}
      title={label}
      aria-label={label}
      data-off={cell.share === null || undefined}
      data-trouble={cell.trouble ?? undefined}
      style={cell.share === null ? undefined : { backgroundColor: shade(cell.share) }}
    />
  );
}
