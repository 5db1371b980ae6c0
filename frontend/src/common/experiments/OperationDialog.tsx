import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import type { ExperimentDetail } from "../../api/queries";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { Lines, Notice } from "../../components/basics";
import * as format from "../../lib/format";
import { effects, touched } from "./operations";

export type Plain = "pause" | "resume" | "stop" | "kill" | "close" | "archive" | "unarchive";

/** Asks before an operation that needs nothing more to be said; names the trials and slots it touches. */
export function OperationDialog({
  experiment: data,
  kind,
  onClose,
}: {
  experiment: ExperimentDetail;
  kind: Plain;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const grace = Number(data.config["stop_grace_s"]);
  const slots = t("trial.slots", { count: data.spending.slots_held });
  const lines =
    kind === "archive" || kind === "unarchive" || kind === "close"
      ? []
      : effects(kind, touched(data)).map(({ key, count }) =>
          t(`operation.effect.${key}`, { count, slots, grace: format.duration(grace) }),
        );
  return (
    <ConfirmAction
      onClose={onClose}
      title={t(`operation.ask.${kind}`, { name: data.name, id: data.id })}
      action={t(`operation.${kind}`)}
      danger={kind === "stop" || kind === "kill" || kind === "close"}
      run={() =>
        unwrap(
          client.POST(`/api/v1/experiments/{experiment_id}:${kind}`, { params: { path: { experiment_id: data.id } } }),
        )
      }
    >
      <div data-testid="operation-effect">
        <Lines items={lines} />
        {data.unsaved && (kind === "pause" || kind === "stop" || kind === "kill") ? (
          <Notice tone="warn">
            <span data-testid="unsaved">
              {t("operation.unsaved", {
                count: data.unsaved.num_trials,
                time: format.duration(data.unsaved.longest_s),
              })}
            </span>
          </Notice>
        ) : null}
        <p className={lines.length > 0 ? "dim" : undefined} style={{ margin: lines.length > 0 ? "8px 0 0" : 0 }}>
          {t(`operation.after.${kind}`)}
        </p>
      </div>
    </ConfirmAction>
  );
}
