import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { type TraceTimes, traceFigures } from "../../../api/queries";
import { Notice, Section } from "../../../components/basics";
import { type Column, column, DataTable, lead, numeric } from "../../../components/tables/DataTable";
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
          lead("of", t("profiles.figures.of"), ({ label }) => label),
          numeric("span", t("profiles.figures.span"), ({ times }) => ms(times.span_us)),
          ...TIMES.map((name): Column<Row> =>
            numeric(name, t(`profiles.figures.${name}`), ({ times }) => ms(times[`${name}_us`])),
          ),
        ];
        const pairs = waiting?.pairs ?? [];
        const bandwidths = waiting?.bandwidths ?? [];
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
                <DataTable<(typeof kinds)[number]>
                  rows={kinds}
                  rowKey={(kind) => `${kind.rank}.${kind.group}.${kind.kind}`}
                  label={t("profiles.figures.kinds")}
                  testId="trace-kinds"
                  columns={[
                    column("rank", t("profiles.figures.of"), (kind) => t("rank.no", { rank: kind.rank })),
                    lead("kind", t("profiles.figures.kind"), (kind) => kind.kind),
                    column("group", t("profiles.figures.group"), (kind) => kind.group),
                    numeric("count", t("profiles.figures.count"), (kind) => format.count(kind.count)),
                    numeric("bytes", t("profiles.size"), (kind) => format.bytes(kind.bytes)),
                    numeric("time", t("profiles.figures.communication"), (kind) => ms(kind.communication_us)),
                    numeric("exposed", t("profiles.figures.exposed"), (kind) => ms(kind.exposed_us)),
                  ]}
                />
              </Section>
            ) : null}
            {bandwidths.length > 0 ? (
              <Section title={t("profiles.figures.bandwidth")} note={t("profiles.figures.bandwidthNote")}>
                <DataTable<(typeof bandwidths)[number]>
                  rows={bandwidths}
                  rowKey={(kind) => `${kind.group}.${kind.kind}.${kind.ranks}`}
                  label={t("profiles.figures.bandwidth")}
                  testId="trace-bandwidths"
                  columns={[
                    lead("kind", t("profiles.figures.kind"), (kind) => kind.kind),
                    column("group", t("profiles.figures.group"), (kind) => kind.group),
                    numeric("ranks", t("ranks.members"), (kind) => format.count(kind.ranks)),
                    numeric("count", t("profiles.figures.count"), (kind) => format.count(kind.collectives)),
                    numeric("bytes", t("profiles.size"), (kind) => format.bytes(kind.bytes)),
                    numeric("transfer", t("perf.transfer"), (kind) => ms(kind.transfer_us)),
                    numeric("algorithm", t("perf.algorithm"), (kind) =>
                      format.si(kind.algorithm_bytes_per_s, "B/s", 3),
                    ),
                    numeric("bus", t("perf.bus"), (kind) => format.si(kind.bus_bytes_per_s, "B/s", 3)),
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
