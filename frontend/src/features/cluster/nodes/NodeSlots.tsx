import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { Node } from "../../../api/queries";
import { Clamped } from "../../../components/basics";
import { column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
import * as format from "../../../lib/format";
import { rankRanges } from "../../../lib/series/perf";
import { seriesIndex } from "../../../lib/states";
import css from "../cluster.module.css";
import { devicesOf, heldBy } from "./nodeUse";
import { SlotCell } from "./SlotStrip";
import layout from "../../../components/layout.module.css";

/** The slots as a grid, what they are, and which trials hold them. */
export function NodeSlots({ node }: { node: Node }) {
  const { t } = useTranslation();
  const held = heldBy(node);
  return (
    <>
      <p className={`dim ${layout["text"]} ${layout["belowM"]}`}>
        {devicesOf(node)
          .map(
            (device) =>
              `${device.count} × ${device.name}${device.memoryBytes > 0 ? ` (${format.bytes(device.memoryBytes)})` : ""}`,
          )
          .join(" · ")}
      </p>
      <div className={css["slots"]} data-testid="slots">
        {node.slots.map((slot) => (
          <SlotCell key={slot.index} node={node} slot={slot} />
        ))}
      </div>
      {held.length > 0 ? (
        <div className={layout["aboveXl"]}>
          <DataTable<(typeof held)[number]>
            rows={held}
            rowKey={(entry) => entry.trialId}
            label={t("nodes.running")}
            testId="node-trials"
            columns={[
              lead("name", t("queue.trial"), (entry) => (
                <Link to="/trials/$trialId" params={{ trialId: String(entry.trialId) }} className={css["keyed"]}>
                  <i style={{ background: `var(--series-${seriesIndex(entry.experimentId)})` }} />
                  <Clamped text={entry.experimentName} />
                </Link>
              )),
              numeric("trial", t("nodes.trialId"), (entry) => entry.trialId),
              column("slots", t("nodes.slots"), (entry) => rankRanges(entry.slots)),
              column("ranks", t("ranks.members"), (entry) =>
                entry.ranks.length > 0 ? rankRanges(entry.ranks) : format.MISSING,
              ),
            ]}
          />
        </div>
      ) : null}
    </>
  );
}
