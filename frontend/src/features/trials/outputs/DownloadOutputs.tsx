import { Button, Tooltip } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { url } from "../../../lib/address";
import { client, type Schemas, unwrap } from "../../../api/client";
import { whenDone } from "../../../api/queries";
import { errorLine } from "../../../components/text/Message";
import css from "../trials.module.css";

/** Fetches outputs: an agent sends them to the server, then the browser saves them. Null paths: all. */
export function DownloadOutputs({
  trialId,
  paths,
  label,
  isSubtle = false,
}: {
  trialId: number;
  paths: string[] | null;
  label: string;
  isSubtle?: boolean;
}) {
  const { t } = useTranslation();
  const [waitsFor, setWaitsFor] = useState("");
  const leaving = useRef<AbortController | null>(null);
  useEffect(() => () => leaving.current?.abort(), []);
  const fetching = useMutation({
    mutationFn: async () => {
      leaving.current = new AbortController();
      const { exports } = await unwrap(
        client.POST("/api/v1/trials/{trial_id}/outputs:export", {
          params: { path: { trial_id: trialId } },
          body: { paths },
        }),
      );
      for (const asked of exports) save(await whenDone(asked, leaving.current.signal, setWaitsFor));
    },
  });
  const isAborted = fetching.error instanceof DOMException;
  return (
    <>
      <Tooltip
        label={t("exporting.waits", { node: waitsFor })}
        disabled={!fetching.isPending || waitsFor === ""}
        multiline
        maw={360}
      >
        <Button
          variant={isSubtle ? "subtle" : "default"}
          size={isSubtle ? "compact-xs" : "xs"}
          leftSection={isSubtle ? undefined : <IconDownload size={14} aria-hidden />}
          loading={fetching.isPending}
          onClick={() => fetching.mutate()}
          data-testid={paths ? "output-download" : "outputs-download-all"}
          aria-label={paths ? `${label}: ${paths.join(", ")}` : undefined}
        >
          {label}
        </Button>
      </Tooltip>
      {fetching.error && !isAborted ? (
        <span role="alert" className={`dim ${css["ownLine"]}`} data-testid="output-problem">
          {t("outputs.failed", { why: errorLine(fetching.error) })}
        </span>
      ) : null}
    </>
  );
}

function save(file: Schemas["ExportOut"]) {
  const link = document.createElement("a");
  link.href = url(`/api/v1/exports/${file.id}/file`);
  link.download = file.file_name;
  document.body.append(link);
  link.click();
  link.remove();
}
