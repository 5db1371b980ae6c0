import { Anchor, Button, Tooltip } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { url } from "../../../lib/address";
import { client, type Schemas, unwrap } from "../../../api/client";
import { trialExports } from "../../../api/queries";
import { errorLine } from "../../../components/text/Message";
import * as format from "../../../lib/format";
import css from "../trials.module.css";

type Props = {
  trialId: number;
  checkpointId: number;
  last: Schemas["ExportOut"] | undefined;
  mayAsk: boolean;
  /** False: the script's files as they are. */
  isModel?: boolean;
};

/** The model of a checkpoint as one file: asked for, waited for, then a link; or why there is none. */
export function ExportButton({ trialId, checkpointId, last, mayAsk, isModel = true }: Props) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const ask = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/checkpoints/{checkpoint_id}:export", {
          params: { path: { checkpoint_id: checkpointId } },
        }),
      ),
    onSettled: () => queryClient.invalidateQueries({ queryKey: trialExports(trialId).queryKey }),
  });
  if (last?.state === "done")
    return (
      <Tooltip label={t("exporting.file", { name: last.file_name, size: format.bytes(last.size_bytes) })}>
        <Anchor
          size="xs"
          href={url(`/api/v1/exports/${last.id}/file`)}
          download={last.file_name}
          data-testid="export-file"
        >
          {t("exporting.download")}
        </Anchor>
      </Tooltip>
    );
  const waits = last?.state === "pending";
  const problem = ask.error ? errorLine(ask.error) : last?.state === "failed" ? last.message : "";
  if (!mayAsk && !waits) return null;
  return (
    <>
      <Tooltip
        label={
          waits ? t("exporting.waits", { node: last.waits_for }) : t(isModel ? "exporting.hint" : "exporting.filesHint")
        }
        multiline
        maw={360}
      >
        <Button
          variant="subtle"
          size="compact-xs"
          loading={waits || ask.isPending}
          onClick={() => ask.mutate()}
          data-testid="export-model"
        >
          {t("exporting.ask")}
        </Button>
      </Tooltip>
      {problem ? (
        <span role="alert" className={`dim ${css["ownLine"]}`} data-testid="export-problem">
          {t("exporting.failed", { why: problem })}
        </span>
      ) : null}
    </>
  );
}
