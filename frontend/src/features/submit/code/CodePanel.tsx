import { ActionIcon, Button, Loader } from "@mantine/core";
import { IconFolderPlus, IconX } from "@tabler/icons-react";
import { type DragEvent, type InputHTMLAttributes, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { Notice } from "../../../components/basics";
import { ErrorNotice } from "../../../components/QueryView";
import * as format from "../../../lib/format";
import { BadArchive } from "./archives";
import css from "./code.module.css";
import { entriesOf, readChosen, readEntries, TooMuch } from "./dropped";
import { bytesOf, MAX_BUNDLE_BYTES, MAX_FILES } from "./files";
import type { Code, CodeState } from "./useCode";

const SHOWN = 5;
const FOLDER = { webkitdirectory: "" } as InputHTMLAttributes<HTMLInputElement>;

/** The folder with the code of a script: dropped or chosen, looked at, and sent. */
export function CodePanel({ state, isUsed }: { state: CodeState; isUsed: boolean }) {
  const { t } = useTranslation();
  const { code, isBusy, error, choose } = state;
  const [isOver, setOver] = useState(false);
  const folder = useRef<HTMLInputElement>(null);
  const archive = useRef<HTMLInputElement>(null);
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const entries = entriesOf(event.dataTransfer);
    if (entries.length > 0) void choose(() => readEntries(entries));
  };
  const input = (rest: InputHTMLAttributes<HTMLInputElement>, ref: typeof folder, label: string) => (
    <input
      ref={ref}
      type="file"
      className="srOnly"
      tabIndex={-1}
      aria-label={label}
      onChange={(event) => {
        const files = [...(event.currentTarget.files ?? [])];
        event.currentTarget.value = "";
        if (files.length > 0) void choose(() => readChosen(files));
      }}
      {...rest}
    />
  );
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- the buttons in it do the same by keyboard
    <div
      className={css["code"]}
      data-over={isOver || undefined}
      data-testid="code-drop"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <div className={css["codeHead"]}>
        <IconFolderPlus size={16} aria-hidden />
        <span>{code ? <b>{code.name}</b> : t("submit.code.drop")}</span>
        {isBusy ? <Loader size="xs" aria-label={t("common.loading")} /> : null}
        <span className={css["codeButtons"]}>
          <Button variant="default" size="compact-xs" onClick={() => folder.current?.click()}>
            {t("submit.code.folder")}
          </Button>
          <Button variant="default" size="compact-xs" onClick={() => archive.current?.click()}>
            {t("submit.code.archive")}
          </Button>
          {code ? (
            <ActionIcon
              size="sm"
              variant="subtle"
              color="gray"
              aria-label={t("submit.code.remove")}
              onClick={state.clear}
            >
              <IconX size={14} />
            </ActionIcon>
          ) : null}
        </span>
        {input(
          { ...FOLDER, multiple: true, "data-testid": "code-folder" } as typeof FOLDER,
          folder,
          t("submit.code.folder"),
        )}
        {input(
          { accept: ".zip,.tar,.tgz,.gz", "data-testid": "code-archive" } as typeof FOLDER,
          archive,
          t("submit.code.archive"),
        )}
      </div>
      {error ? <Problem error={error} /> : null}
      {code ? <Contents code={code} isUsed={isUsed} isBusy={isBusy} onUpload={() => void state.upload(code)} /> : null}
    </div>
  );
}

function Problem({ error }: { error: Error }) {
  const { t } = useTranslation();
  if (error instanceof BadArchive)
    return <Notice tone="bad" title={t("submit.code.unreadable", { name: error.message })} />;
  if (error instanceof TooMuch) return <Notice tone="bad" title={t("submit.code.tooMuch", { name: error.message })} />;
  return <ErrorNotice error={error} />;
}

/** What will be sent, and what will not. */
function Contents({
  code,
  isUsed,
  isBusy,
  onUpload,
}: {
  code: Code;
  isUsed: boolean;
  isBusy: boolean;
  onUpload: () => void;
}) {
  const { t } = useTranslation();
  const largest = code.files.toSorted((a, b) => b.data.size - a.data.size).slice(0, SHOWN);
  const num = { count: code.files.length, n: format.count(code.files.length), size: format.bytes(bytesOf(code.files)) };
  if (code.refusal)
    return (
      <Notice
        tone="bad"
        title={t(`submit.code.refused.${code.refusal}`, {
          files: format.count(MAX_FILES),
          size: format.bytes(MAX_BUNDLE_BYTES),
        })}
      >
        {t("submit.code.ignoreHint")}{" "}
        {largest.map(({ name, data }) => `${name} (${format.bytes(data.size)})`).join(", ")}
      </Notice>
    );
  return (
    <div className={css["codeBody"]} data-testid="code-contents" data-sent={code.sha256 !== null}>
      <p>
        {t("submit.code.files", num)}
        {code.packed ? ` · ${t("submit.code.packed", { size: format.bytes(code.packed.body.size) })}` : ""}
      </p>
      <p className="dim mono">
        {largest.map(({ name, data }) => `${name} ${format.bytes(data.size)}`).join(" · ")}
        {code.files.length > SHOWN ? ` · ${t("submit.code.more", { count: code.files.length - SHOWN })}` : ""}
      </p>
      {code.leftOut.length > 0 ? (
        <p className="dim">
          {t("submit.code.leftOut")}{" "}
          <span className="mono">
            {code.leftOut
              .slice(0, SHOWN)
              .map((entry) => `${entry.name} (${format.bytes(entry.bytes)})`)
              .join(" · ")}
          </span>
          {code.leftOut.length > SHOWN ? ` · ${t("submit.code.more", { count: code.leftOut.length - SHOWN })}` : ""}
        </p>
      ) : null}
      {code.sha256 === null ? (
        <Button size="compact-xs" loading={isBusy} onClick={onUpload} data-testid="code-upload">
          {t("submit.code.upload")}
        </Button>
      ) : (
        <p className="dim">
          {t(isUsed ? "submit.code.sent" : "submit.code.unused")}{" "}
          <span className="mono">{code.sha256.slice(0, 12)}</span>
        </p>
      )}
    </div>
  );
}
