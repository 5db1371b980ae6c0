import { Badge } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { modelExports, type ModelExport, type ModelExportJob, type ModelVersion } from "../../api/queries";
import { Code, Section } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedTable } from "../../components/tables/PagedTable";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";

const COLORS = { queued: "gray", running: "blue", done: "green", failed: "red" } as const;

interface Row {
  job: ModelExportJob;
  made: ModelExport;
}

/** The files for other programs that were made of a version, and how their answers compare. */
export function Exports({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(modelExports(version.model, version.number));
  const columns = useColumns();
  return (
    <Section title={t("models.exports")} note={t("models.exportsHint")}>
      <QueryView query={query}>
        {(data) => {
          const rows = data.pages
            .flatMap((page) => page.items)
            .flatMap((job) => job.exports.map((made) => ({ job, made })));
          if (rows.length === 0)
            return (
              <p className="dim">
                {t("models.noExports")}{" "}
                <Code text={`muster model export ${version.model}:${version.number} --format onnx`} />
              </p>
            );
          return (
            <PagedTable
              query={query}
              rows={rows}
              rowKey={({ job, made }) => `${job.experiment_id}-${made.format}`}
              label={t("models.exports")}
              testId="version-exports"
              columns={columns}
            />
          );
        }}
      </QueryView>
    </Section>
  );
}

function useColumns(): Column<Row>[] {
  const { t } = useTranslation();
  const difference = ({ made: { comparison } }: Row) => {
    if (!comparison) return format.MISSING;
    const verdict = t(`models.verdicts.${comparison.verdict}`);
    if (comparison.max_abs === null || comparison.verdict === "equal") return verdict;
    return `${format.metric("difference", comparison.max_abs)}, ${verdict}`;
  };
  return [
    lead("format", t("models.format"), ({ made }) => <span className="mono">{made.format}</span>),
    column("experiment", t("models.experiment"), ({ job }) => (
      <Link to="/experiments/$experimentId" params={{ experimentId: String(job.experiment_id) }}>
        {`#${job.experiment_id}`}
      </Link>
    )),
    column("state", t("models.state"), ({ made }) => (
      <>
        <Badge size="xs" variant="light" color={COLORS[made.state]} tt="none">
          {t(`models.exportStates.${made.state}`)}
        </Badge>{" "}
        <span lang="en">{made.message}</span>
      </>
    )),
    numeric("size", t("models.size"), ({ made }) =>
      made.files.length > 0 ? format.bytes(made.size_bytes) : format.MISSING,
    ),
    column("difference", t("models.difference"), difference),
    {
      id: "digest",
      phone: false,
      header: t("models.contentDigest"),
      cell: ({ made }) =>
        made.digest === "" ? (
          format.MISSING
        ) : (
          <span className="mono" title={made.digest}>
            {made.digest.slice(0, 23)}…
          </span>
        ),
    },
    numeric("at", t("models.when"), ({ job }) => <Ago at={job.result_at ?? job.created_at} />),
  ];
}
