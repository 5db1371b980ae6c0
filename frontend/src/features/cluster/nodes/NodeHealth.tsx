import { useTranslation } from "react-i18next";

import type { Node } from "../../../api/queries";
import { Notice } from "../../../components/basics";
import { sentence } from "../../../components/text/Message";
import { word } from "../../../i18n/words";

/** Everything that is wrong with a node, one sentence each, and whether it keeps new work away. */
export function NodeHealth({
  node,
}: {
  node: Pick<Node, "quarantine_reason" | "problems" | "slots" | "strikes" | "strike_reason">;
}) {
  const { t } = useTranslation();
  return (
    <div data-testid="node-health">
      {node.quarantine_reason ? (
        <Notice tone="bad" title={t("nodes.quarantined")}>
          {node.quarantine_reason} <span>{t("nodes.quarantinedHint")}</span>
        </Notice>
      ) : null}
      {node.problems.map((problem) => {
        const slot = problem.slot ?? null;
        // A pool may have devices that others use given out all the same.
        const isKept = problem.blocks && (slot === null || node.slots.some((one) => one.index === slot && one.problem));
        const text = !isKept ? "nodes.problemOpen" : slot === null ? "nodes.problemBlocks" : "nodes.problemBlocksSlot";
        return (
          <Notice key={problem.kind + problem.message} tone={isKept ? "bad" : "warn"} title={sentence(problem.message)}>
            {t(text, {
              kind: word(t, "nodes.problem", problem.kind),
              slot: slot ?? "",
            })}
          </Notice>
        );
      })}
      {node.strikes > 0 && !node.quarantine_reason ? (
        <Notice tone="warn" title={t("nodes.strikes", { count: node.strikes })}>
          {node.strike_reason} <span>{t("nodes.strikesHint")}</span>
        </Notice>
      ) : null}
    </div>
  );
}
