import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import { KeyValues } from "../../components/basics";
import * as format from "../../lib/format";

/** What deleting takes away, counted and weighed; where the files are. */
export function Freed({ freed, keepFiles }: { freed: Schemas["FreedOut"]; keepFiles: boolean }) {
  const { t } = useTranslation();
  return (
    <div data-testid="freed">
      <KeyValues
        items={[
          [t("experiments.trials"), format.count(freed.num_trials)],
          [
            t("trial.tab.metrics"),
            t("deletion.series", { count: freed.num_series, size: format.bytes(freed.metric_bytes) }),
          ],
          [
            t("trial.tab.logs"),
            t("deletion.streams", { count: freed.num_log_streams, size: format.bytes(freed.log_bytes) }),
          ],
          ...(freed.bundle_bytes > 0
            ? ([[t("deletion.code"), t("deletion.bundle", { size: format.bytes(freed.bundle_bytes) })]] as [
                string,
                string,
              ][])
            : []),
          ...(freed.num_outputs > 0
            ? ([
                [
                  t("trial.tab.outputs"),
                  t("deletion.outputs", { count: freed.num_outputs, size: format.bytes(freed.outputs_bytes) }),
                ],
              ] as [string, string][])
            : []),
          [
            t("trial.tab.checkpoints"),
            <div key="checkpoints">
              <div>
                {t("deletion.checkpoints", {
                  count: freed.num_checkpoints,
                  size: format.bytes(freed.checkpoint_bytes),
                })}
              </div>
              {freed.storages.map((storage) => (
                <div key={storage.storage_id} className="dim">
                  {t("deletion.storage", {
                    nodes: storage.nodes.join(", ") || t("deletion.noNode"),
                    count: storage.num_checkpoints,
                    size: format.bytes(storage.size_bytes),
                  })}{" "}
                  {keepFiles || storage.storage_id === ""
                    ? t("deletion.filesStay")
                    : storage.is_reachable
                      ? t("deletion.now")
                      : t("deletion.later")}
                </div>
              ))}
            </div>,
          ],
        ]}
      />
    </div>
  );
}
