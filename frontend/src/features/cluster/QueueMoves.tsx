import { ActionIcon } from "@mantine/core";
import { IconArrowBarToUp, IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";

import type { QueueItem, QueueMove } from "../../api/queries";
import type { Places } from "./queueOrder";
import layout from "../../components/layout.module.css";

/** Three buttons that move a trial among its equals; they keep their place in the order of the keyboard. */
export function QueueMoves({
  item,
  places,
  onMove,
}: {
  item: QueueItem;
  places: Places;
  onMove: (item: QueueItem, wish: QueueMove, button: string) => void;
}) {
  const { t } = useTranslation();
  const name = `${item.experiment_name}, ${t("trial.no", { no: item.trial_no })}`;
  const button = (id: "front" | "up" | "down", Icon: typeof IconArrowUp, wish: QueueMove | null) => (
    <ActionIcon
      size="sm"
      variant="subtle"
      color="gray"
      // Not `disabled`: a button that has the focus and is disabled loses it.
      aria-disabled={wish === null || undefined}
      data-disabled={wish === null || undefined}
      aria-label={t(`queue.move.${id}`, { name })}
      title={wish === null ? t("queue.move.none") : t(`queue.move.${id}`, { name })}
      data-testid={`move-${id}`}
      data-move={`${item.trial_id}:${id}`}
      onClick={() => {
        if (wish) onMove(item, wish, `${item.trial_id}:${id}`);
      }}
    >
      <Icon size={15} aria-hidden />
    </ActionIcon>
  );
  return (
    <span className={`${layout["inline"]} ${layout["tight"]}`}>
      {button("front", IconArrowBarToUp, places.before ? { trial_id: item.trial_id, to: "front" } : null)}
      {button(
        "up",
        IconArrowUp,
        places.before ? { trial_id: item.trial_id, before: { trial_id: places.before.trial_id } } : null,
      )}
      {button(
        "down",
        IconArrowDown,
        places.after ? { trial_id: item.trial_id, after: { trial_id: places.after.trial_id } } : null,
      )}
    </span>
  );
}
