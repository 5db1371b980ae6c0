import { useTranslation } from "react-i18next";

import type { Node } from "../../../api/queries";
import { StateBadge } from "../../../components/StateBadge";
import { reasonText, sentence } from "../../../components/text/Message";
import { word } from "../../../i18n/words";

export function NodeState({ node }: { node: Node }) {
  const { t } = useTranslation();
  return (
    <span>
      <span title={reasonText(node.state_reason, node.state_parts)}>
        <StateBadge state={node.state} plain />
      </span>
      {node.scheduling === "open" ? null : <span className="dim"> · {t(`nodes.scheduling.${node.scheduling}`)}</span>}
      {node.unavailable === "maintenance" || node.unavailable === "reserved" ? (
        <span className="dim"> · {t(`slot.unavailable.${node.unavailable}`)}</span>
      ) : null}
      {node.health === "ok" ? null : (
        <span
          style={{ color: node.health === "quarantined" ? "var(--bad)" : "var(--warn)" }}
          title={sentence(node.health_reason)}
        >
          {" "}
          · {word(t, "nodes.healthWord", node.health)}
        </span>
      )}
    </span>
  );
}
