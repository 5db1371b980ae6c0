import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo } from "react";
import { useTranslation } from "react-i18next";

import { type BlockContent, mediaContent, type MediaContent as Content, type ReportContent } from "../../api/queries";
import { isDrawn } from "../../api/queries/media";
import { SeriesChart } from "../../charts/series/SeriesChart";
import { MediaContent } from "../../common/media/MediaContent";
import { Notice, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { Markdown } from "../../components/text/Markdown";
import { Reason } from "../../components/text/Message";
import * as format from "../../lib/format";
import { sourceOfBlock } from "./blockSource";
import css from "./reports.module.css";

/** What a report shows. `isShared`: to somebody without an account, for whom there are no other pages. */
export function ReportBlocks({ content, isShared = false }: { content: ReportContent; isShared?: boolean }) {
  const { t } = useTranslation();
  return (
    <div className={css["blocks"]} data-testid="report-content">
      {/* Headings of texts begin at the third level. */}
      <h2 className="srOnly">{t("reports.content")}</h2>
      {content.blocks.map((block, no) => (
        // oxlint-disable-next-line react/no-array-index-key -- a block has no name but its place
        <Block key={no} no={no} block={block} isShared={isShared} />
      ))}
    </div>
  );
}

interface Props {
  no: number;
  block: BlockContent;
  isShared: boolean;
}

function Block({ no, block, isShared }: Props) {
  const { t } = useTranslation();
  if (typeof block.text === "string") return <Markdown text={block.text} />;
  if (block.problem)
    return (
      <Notice tone="warn" title={block.title || t(`reports.kind.${block.kind}`)}>
        <Reason text={block.problem} parts={block.problem_parts} />
      </Notice>
    );
  return (
    <div className={css["block"]}>
      {block.curves ? <Chart no={no} block={block} /> : null}
      {block.table ? <Table block={block} table={block.table} isShared={isShared} /> : null}
      {block.media ? <Media block={block} media={block.media} isShared={isShared} /> : null}
      {block.num_left_out > 0 ? (
        <p className="dim">
          {t(block.curves ? "reports.curvesLeftOut" : "reports.mediaLeftOut", { count: block.num_left_out })}
        </p>
      ) : null}
    </div>
  );
}

function Chart({ no, block }: { no: number; block: BlockContent }) {
  const source = useMemo(() => sourceOfBlock(block), [block]);
  const [first = ""] = block.expressions;
  return (
    <SeriesChart
      id={`report-${no}`}
      title={block.title || block.expressions.join(", ")}
      metric={block.expressions.length === 1 ? first : ""}
      source={source}
      x={block.x}
      log={block.log}
      smoothing={block.smoothing}
      height={300}
    />
  );
}

type TableContent = NonNullable<BlockContent["table"]>;
type TableCell = TableContent["rows"][number]["cells"][number];

function Table({ block, table, isShared }: { block: BlockContent; table: TableContent; isShared: boolean }) {
  const { t } = useTranslation();
  const names = new Map(block.runs.map((run) => [run.trial_id, run.name]));
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
    <div className={css["scrolls"]} tabIndex={0} role="group" aria-label={block.title || t("reports.kind.table")}>
      <table className={css["table"]} data-testid="report-table">
        {block.title ? <caption>{block.title}</caption> : null}
        <thead>
          <tr>
            {table.is_grouped ? null : <th scope="col">{t("reports.run")}</th>}
            {table.head.map((name, i) => (
              // oxlint-disable-next-line react/no-array-index-key -- two columns may have the same name
              <th key={i} scope="col" data-number={i >= table.num_keys || undefined}>
                {name}
              </th>
            ))}
            {table.is_grouped ? (
              <th scope="col" data-number title={t("reports.nHint")}>
                n
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row) => (
            <tr key={row.trial_ids.join(",")} data-baseline={row.is_baseline || undefined}>
              {table.is_grouped ? null : (
                <th scope="row">
                  <Runs ids={row.trial_ids} isShared={isShared}>
                    {names.get(row.trial_ids[0] ?? 0)}
                  </Runs>
                  {row.is_baseline ? <small className="dim"> {t("reports.baselineMark")}</small> : null}
                </th>
              )}
              {row.keys.map((key, i) => (
                // oxlint-disable-next-line react/no-array-index-key -- keys have no name but their place
                <th key={i} scope="row">
                  {key}
                  {row.is_baseline && i === 0 ? <small className="dim"> {t("reports.baselineMark")}</small> : null}
                </th>
              ))}
              {row.cells.map((cell, i) => (
                // oxlint-disable-next-line react/no-array-index-key -- cells have no name but their place
                <td key={i} data-number title={table.is_grouped ? t("reports.cell", countsOf(cell)) : undefined}>
                  <Runs ids={table.is_grouped ? cell.trial_ids : []} isShared={isShared}>
                    {cell.text || format.MISSING}
                  </Runs>
                  {cell.difference === null ? null : (
                    <small className="dim">
                      {" "}
                      {cell.difference > 0 ? "+" : ""}
                      {format.num(cell.difference, 3)}
                    </small>
                  )}
                </td>
              ))}
              {table.is_grouped ? (
                <td data-number>
                  <Runs ids={row.trial_ids} isShared={isShared}>
                    {row.trial_ids.length}
                  </Runs>
                </td>
              ) : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Of how many runs a mean is, and what the others have. */
const countsOf = (cell: TableCell): { n: number; missing: number; odd: number } => ({
  n: cell.num,
  missing: cell.num_missing,
  odd: cell.num_not_finite,
});

/** A number, linked to the runs that it is of. */
function Runs({ ids, isShared, children }: { ids: readonly number[]; isShared: boolean; children: ReactNode }) {
  const [first] = ids;
  if (isShared || first === undefined) return <>{children}</>;
  if (ids.length === 1)
    return (
      <Link to="/trials/$trialId" params={{ trialId: String(first) }}>
        {children}
      </Link>
    );
  return (
    <Link to="/compare" search={{ trials: ids.join(",") }}>
      {children}
    </Link>
  );
}

type MediaItems = NonNullable<BlockContent["media"]>;

function Media({ block, media, isShared }: { block: BlockContent; media: MediaItems; isShared: boolean }) {
  const { t } = useTranslation();
  return (
    <>
      {block.title ? <h3>{block.title}</h3> : null}
      {media.length === 0 ? <p className="dim">{t("reports.noMedia")}</p> : null}
      <div className={css["media"]}>
        {media.map(({ item, data }) => (
          <figure key={item.id} data-testid="report-media">
            {data === null ? isShared ? <p className="dim">{t("reports.file")}</p> : <Fetched item={item} /> : null}
            {data === null ? null : <MediaContent item={item} content={heldContent(item, data)} />}
            <figcaption>
              {block.runs.find((run) => run.trial_id === item.trial_id)?.name} · {item.name} ·{" "}
              {t("chart.atStep", { step: format.count(item.step) })}
              {item.caption ? ` · ${item.caption}` : null}
            </figcaption>
          </figure>
        ))}
      </div>
    </>
  );
}

type Item = MediaItems[number]["item"];

const heldContent = (item: Item, data: string): Content => ({
  url: `data:${item.mime};base64,${data}`,
  text: isDrawn(item) ? new TextDecoder().decode(Uint8Array.from(atob(data), (one) => one.charCodeAt(0))) : null,
});

/** A file that is kept beside the run: a node sends it. */
function Fetched({ item }: { item: Item }) {
  const query = useQuery(mediaContent(item));
  if (query.data) return <MediaContent item={item} content={query.data} />;
  return query.error ? <ErrorNotice error={query.error} onRetry={query.refetch} /> : <Skeleton rows={3} />;
}
