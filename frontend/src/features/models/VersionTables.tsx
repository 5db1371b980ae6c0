import { Anchor } from "@mantine/core";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import type { ModelFile, ModelVersion } from "../../api/queries";
import { actions, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";

export function MetricTable({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const rows = Object.entries(version.metrics).toSorted(([a], [b]) => a.localeCompare(b));
  if (rows.length === 0) return <p className="dim">{t("models.noMetrics")}</p>;
  return (
    <div className={layout["narrow"]}>
      <DataTable<(typeof rows)[number]>
        rows={rows}
        rowKey={([name]) => name}
        label={t("models.metrics")}
        testId="version-metrics"
        cards={false}
        columns={[
          column("name", t("models.metric"), ([name]) => <span className="mono">{name}</span>),
          actions("value", t("models.metrics"), ([name, value]) => format.metric(name, value)),
        ]}
      />
    </div>
  );
}

/** Files with their digests; those that the server has can be saved from here. */
export function FileTable({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const address = url(`/api/v1/models/${version.model}/versions/${version.number}/files/content`);
  const name = (file: ModelFile) =>
    file.is_at_server ? (
      <Anchor
        size="sm"
        href={`${address}?path=${encodeURIComponent(file.path)}`}
        download
        className={layout["anywhere"]}
      >
        {file.path}
      </Anchor>
    ) : (
      <span className={layout["anywhere"]}>{file.path}</span>
    );
  return (
    <DataTable<ModelFile>
      rows={version.files}
      rowKey={(file) => file.path}
      label={t("models.files")}
      testId="version-files"
      columns={[
        lead("path", t("models.file"), name),
        numeric("size", t("models.size"), (file) =>
          file.size_bytes === null ? format.MISSING : format.bytes(file.size_bytes),
        ),
        column("sha256", t("models.digest"), (file) => (
          <span className="mono" title={file.sha256}>
            {file.sha256.slice(0, 16)}…
          </span>
        )),
      ]}
    />
  );
}

interface Tensor {
  side: "input" | "output";
  name: string;
  type: string;
  shape: number[] | null;
}

export function SignatureTable({ signature }: { signature: Record<string, unknown> }) {
  const { t } = useTranslation();
  const of = (side: Tensor["side"]) =>
    ((signature[`${side}s`] ?? []) as Omit<Tensor, "side">[]).map((tensor) => ({ ...tensor, side }));
  const rows = [...of("input"), ...of("output")].map((tensor, position) => ({ ...tensor, position }));
  const shape = (sizes: number[] | null) =>
    sizes === null ? t("models.anyShape") : `[${sizes.map((size) => (size < 0 ? "?" : size)).join(", ")}]`;
  return (
    <div className={layout["narrow"]}>
      <DataTable<(typeof rows)[number]>
        rows={rows}
        rowKey={(tensor) => tensor.position}
        label={t("models.signature")}
        testId="version-signature"
        cards={false}
        columns={[
          column("side", t("models.signature"), (tensor) => t(`models.${tensor.side}`), { quiet: true }),
          column(
            "name",
            t("models.tensorName"),
            (tensor) => tensor.name || <span className="dim">{t("models.unnamed")}</span>,
          ),
          column("type", t("models.tensorType"), (tensor) => <span className="mono">{tensor.type}</span>),
          column("shape", t("models.tensorShape"), (tensor) => <span className="mono">{shape(tensor.shape)}</span>),
        ]}
      />
    </div>
  );
}
