import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type TraceTimes, traceFigures } from "../../../api/queries";
import { Notice, Section } from "../../../components/basics";
import { type Column, DataTable } from "../../../components/tables/DataTable";
import { QueryView } from "../../../components/QueryView";
import * as format from "../../../lib/format";

const TIMES = ["communication", "computation", "overlap", "exposed", "copy", "idle"] as const;
const MAX_PAIRS = 3;

interface Row {
  key: string;
  label: string;
  times: TraceTimes;
}

/** Where the time of a window's traces went, and who waited for whom. */
export function TraceFigures({ trial, no }: { trial: number; no: number }) {
  const { t } = useTranslation();
  const ms = (us: number) => format.ms(us / 1000);
  const figures = useQuery(traceFigures(trial, no));
  return (
    <QueryView query={figures}>
      {({ ranks, problems, waiting }) => {
        const rows = ranks.flatMap((rank): Row[] => [
          { key: `${rank.rank}`, label: t("rank.no", { rank: rank.rank }), times: rank },
          ...rank.steps.map((step) => ({
            key: `${rank.rank}.${step.step}`,
            label: t("profiles.figures.step", { rank: rank.rank, step: format.count(step.step) }),
            times: step,
          })),
        ]);
        const columns: Column<Row>[] = [
          { id: "of", header: t("profiles.figures.of"), lead: true, cell: ({ label }) => label },
          { id: "span", header: t("profiles.figures.span"), align: "right", cell: ({ times }) => ms(times.span_us) },
          ...TIMES.map((name): Column<Row> => ({
            id: name,
            header: t(`profiles.figures.${name}`),
            align: "right",
            cell: ({ times }) => ms(times[`${name}_us`]),
          })),
        ];
        const pairs = waiting?.pairs ?? [];
        const kinds = ranks.flatMap((rank) => rank.kinds.map((kind) => ({ rank: rank.rank, ...kind })));
        return (
          <>
            <Section title={t("profiles.figures.title", { no })}>
              {problems.map(({ rank, problem }) => (
                <Notice key={rank} tone="warn" title={`${t("rank.no", { rank })}: ${problem}`} />
              ))}
              {pairs.slice(0, MAX_PAIRS).map((pair) => (
                <Text size="sm" key={`${pair.rank}.${pair.waits_for}`} data-testid="trace-waits">
                  {t("profiles.figures.waits", {
                    rank: pair.rank,
                    other: pair.waits_for,
                    time: ms(pair.waiting_us),
                    n: format.count(waiting?.collectives),
                  })}
                </Text>
              ))}
              {pairs.length > MAX_PAIRS ? (
                <Text size="xs" c="dimmed">
                  {t("profiles.figures.shorterWaits", { n: format.count(pairs.length - MAX_PAIRS) })}
                </Text>
              ) : null}
              {ranks.some((rank) => rank.device === "cpu") ? (
                <Text size="xs" c="dimmed">
                  {t("profiles.figures.cpu")}
                </Text>
              ) : null}
              {rows.length > 0 ? (
                <DataTable
                  rows={rows}
                  rowKey={({ key }) => key}
                  label={t("profiles.figures.title", { no })}
                  columns={columns}
                  testId="trace-figures"
                />
              ) : null}
            </Section>
            {kinds.length > 0 ? (
              <Section title={t("profiles.figures.kinds")}>
                <DataTable
                  rows={kinds}
                  rowKey={(kind) => `${kind.rank}.${kind.group}.${kind.kind}`}
                  label={t("profiles.figures.kinds")}
                  testId="trace-kinds"
                  columns={[
                    { id: "rank", header: t("profiles.figures.of"), cell: (kind) => t("rank.no", { rank: kind.rank }) },
                    { id: "kind", header: t("profiles.figures.kind"), lead: true, cell: (kind) => kind.kind },
                    { id: "group", header: t("profiles.figures.group"), cell: (kind) => kind.group },
                    {
                      id: "count",
                      header: t("profiles.figures.count"),
                      align: "right",
                      cell: (kind) => format.count(kind.count),
                    },
                    {
                      id: "bytes",
                      header: t("profiles.size"),
                      align: "right",
                      cell: (kind) => format.bytes(kind.bytes),
                    },
                    {
                      id: "time",
                      header: t("profiles.figures.communication"),
                      align: "right",
                      cell: (kind) => ms(kind.communication_us),
                    },
                    {
                      id: "exposed",
                      header: t("profiles.figures.exposed"),
                      align: "right",
                      cell: (kind) => ms(kind.exposed_us),
                    },
                  ]}
                />
              </Section>
            ) : null}
            {(waiting?.bandwidths ?? []).length > 0 ? (
              <Section title={t("profiles.figures.bandwidth")} note={t("profiles.figures.bandwidthNote")}>
                <DataTable
                  rows={waiting?.bandwidths ?? []}
                  rowKey={(kind) => `${kind.group}.${kind.kind}.${kind.ranks}`}
                  label={t("profiles.figures.bandwidth")}
                  testId="trace-bandwidths"
                  columns={[
                    { id: "kind", header: t("profiles.figures.kind"), lead: true, cell: (kind) => kind.kind },
                    { id: "group", header: t("profiles.figures.group"), cell: (kind) => kind.group },
                    {
                      id: "ranks",
                      header: t("ranks.members"),
                      align: "right",
                      cell: (kind) => format.count(kind.ranks),
                    },
                    {
                      id: "count",
                      header: t("profiles.figures.count"),
                      align: "right",
                      cell: (kind) => format.count(kind.collectives),
                    },
                    {
                      id: "bytes",
                      header: t("profiles.size"),
                      align: "right",
                      cell: (kind) => format.bytes(kind.bytes),
                    },
                    {
                      id: "transfer",
                      header: t("perf.transfer"),
                      align: "right",
                      cell: (kind) => ms(kind.transfer_us),
                    },
                    {
                      id: "algorithm",
                      header: t("perf.algorithm"),
                      align: "right",
                      cell: (kind) => format.si(kind.algorithm_bytes_per_s, "B/s", 3),
                    },
                    {
                      id: "bus",
                      header: t("perf.bus"),
                      align: "right",
                      cell: (kind) => format.si(kind.bus_bytes_per_s, "B/s", 3),
                    },
                  ]}
                />
              </Section>
            ) : null}
          </>
        );
      }}
    </QueryView>
  );
}
