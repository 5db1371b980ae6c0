import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type OutputFile, outputPreview } from "../../../api/queries";
import { Empty, Notice, Skeleton } from "../../../components/basics";
import { ErrorNotice } from "../../../components/QueryView";
import { usePhone } from "../../../components/tables/usePhone";
import * as format from "../../../lib/format";
import { shownOf } from "./previewText";
import css from "../trials.module.css";

const PREVIEW_BYTES = 2 ** 20;

/** The beginning of a file, as text, table or image. */
export function OutputPreview({ trialId, file, onClose }: { trialId: number; file: OutputFile; onClose: () => void }) {
  const { t } = useTranslation();
  const isPhone = usePhone();
  const query = useQuery(outputPreview(trialId, file));
  const isCut = file.size_bytes > PREVIEW_BYTES && query.data?.text !== null;
  return (
    <Modal
      opened
      onClose={onClose}
      title={<span className={css["previewTitle"]}>{file.path}</span>}
      size="xl"
      fullScreen={isPhone}
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <div data-testid="output-preview">
        {query.isPending ? (
          <>
            <p className="dim">{t("outputs.fetching")}</p>
            <Skeleton />
          </>
        ) : query.error ? (
          <ErrorNotice error={query.error} onRetry={() => query.refetch()} />
        ) : (
          <>
            {isCut ? <Notice>{t("outputs.cut", { size: format.bytes(file.size_bytes) })}</Notice> : null}
            {query.data.text === null ? (
              <img src={query.data.url} alt={file.path} className={css["previewImage"]} />
            ) : (
              <Content path={file.path} text={query.data.text} />
            )}
          </>
        )}
      </div>
    </Modal>
  );
}

function Content({ path, text }: { path: string; text: string }) {
  const { t } = useTranslation();
  if (text === "") return <Empty title={t("outputs.emptyFile")} />;
  const shown = shownOf(path, text);
  if (shown.kind === "text")
    return (
      // A long text is read with the arrow keys.
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      <pre className={css["preview"]} tabIndex={0} aria-label={path} role="region">
        {shown.text}
      </pre>
    );
  const [head = [], ...rows] = shown.rows;
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className={css["preview"]} tabIndex={0} aria-label={path} role="region">
      <table>
        <thead>
          <tr>
            {head.map((cell, no) => (
              // oxlint-disable-next-line react/no-array-index-key -- columns have no identity but their place
              <th key={no} scope="col">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, no) => (
            // oxlint-disable-next-line react/no-array-index-key -- rows of a file never move
            <tr key={no}>
              {row.map((cell, column) => (
                // oxlint-disable-next-line react/no-array-index-key
                <td key={column}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
