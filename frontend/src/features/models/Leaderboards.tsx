import { Badge } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { type Leaderboard, type LeaderboardRow, leaderboards } from "../../api/queries";
import { VersionLink } from "../../common/models/VersionLink";
import { Code, Empty, Section } from "../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import { type Estimate, estimates, rangeText } from "../../lib/estimates";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";
import css from "./models.module.css";

/** Evaluated versions, ranked where the samples and the code of the metrics are the same. */
export function Leaderboards() {
  const { t } = useTranslation();
  const query = useQuery(leaderboards);
  return (
    <QueryView query={query}>
      {(boards) =>
        boards.length === 0 ? (
          <Empty
            title={t("models.noEvaluations")}
            action={<Code text="muster model evaluate digits@production --data digits" />}
          >
            {t("models.noEvaluationsHint")}
          </Empty>
        ) : (
          boards.map((board) => (
            <Section
              key={`${board.data_digest} ${board.split} ${board.data} ${board.metrics_version}`}
              title={t("models.boardOf", { data: board.data, split: board.split })}
              note={t("models.boardNote", {
                count: board.num_versions,
                samples: format.count(board.rows[0]?.num_samples),
                digest: board.data_digest.slice(0, 19),
              })}
              testId={`leaderboard-${board.data}`}
            >
              <Board board={board} />
            </Section>
          ))
        )
      }
    </QueryView>
  );
}

function Board({ board }: { board: Leaderboard }) {
  const { t } = useTranslation();
  const names = estimates(board.rows[0]?.metrics ?? {})
    .map(({ name }) => name)
    .filter((name) => name !== board.metric);
  const value = (name: string): Column<LeaderboardRow> =>
    numeric(name, name, (row) => <Figure of={estimates(row.metrics).find((each) => each.name === name)} />);
  return (
    <DataTable<LeaderboardRow>
      rows={board.rows}
      rowKey={(row) => `${row.model}:${row.version}`}
      label={t("models.boardOf", { data: board.data, split: board.split })}
      columns={[
        numeric("rank", t("models.rank"), (row) => row.rank ?? format.MISSING),
        lead("version", t("models.version"), (row) => (
          <span className={`${layout["inline"]} ${layout["tight"]}`}>
            <VersionLink model={row.model} version={row.version} />
            {row.aliases.map((alias) => (
              <Badge key={alias} size="sm" variant="light" tt="none">
                {alias}
              </Badge>
            ))}
          </span>
        )),
        ...(board.metric ? [value(board.metric)] : []),
        ...names.map(value),
        numeric("latency", t("models.latency"), (row) => format.num(row.speed["latency_p50_ms"] ?? null, 3)),
        numeric("rows", t("models.rowsPerSecond"), (row) => format.si(row.speed["rows_per_s"] ?? null, "", 3)),
        numeric("parameters", t("models.parameters"), (row) =>
          row.num_parameters === null ? format.MISSING : format.count(row.num_parameters),
        ),
        column("device", t("models.device"), (row) => row.device, { phone: false }),
        numeric("at", t("models.evaluated"), (row) => (
          <Link to="/experiments/$experimentId" params={{ experimentId: String(row.experiment_id) }}>
            <Ago at={row.evaluated_at} />
          </Link>
        )),
      ]}
    />
  );
}

/** A metric, and below it its interval. */
function Figure({ of }: { of: Estimate | undefined }) {
  if (of === undefined) return format.MISSING;
  return (
    // One element: the cards on a phone set what a cell has side by side.
    <div>
      {format.metric(of.name, of.value)}
      {of.range ? <div className={css["range"]}>{rangeText(of)}</div> : null}
    </div>
  );
}
