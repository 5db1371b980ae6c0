import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";

import { mediaOverview, type Panel } from "../../api/queries";
import type { ChartSearch } from "../../charts/chartSearch";
import { type Command, SeriesChart, type Source } from "../../charts/series/SeriesChart";
import { type Want, Wanted, WhenSeen } from "../../charts/whenSeen";
import type { YRange } from "../../charts/series/yRanges";
import { Markdown } from "../../components/text/Markdown";
import { readExpression } from "../../lib/series/expression";
import { MediaCard } from "../media/MediaCard";
import { BarPanel, HistogramPanel, ScatterPanel, TablePanel } from "./drawings";
import { expressionSource, metricsOf, readAll } from "./panelLines";
import { PanelFrame } from "./PanelFrame";
import css from "./panels.module.css";

/** A run whose images a panel shows. */
export interface Shown {
  id: number;
  name: string;
  isRunning: boolean;
}

/** What panels need of their page. */
export interface Around {
  /** Names of the metrics there are. */
  names: readonly string[];
  search: ChartSearch;
  set: (change: ChartSearch) => void;
  smoothing: number;
  want: Want;
  /** Must be stable. */
  source: (names: string[]) => Source;
  runs: readonly Shown[];
  /** Marks that the charts draw; undefined on a page whose charts draw none. */
  marks?: readonly Panel[];
}

interface Props {
  panel: Panel;
  around: Around;
  menu: React.ReactNode;
  /** Null: in its place on the page. */
  fullHeight: number | null;
  yRange: YRange | null;
  onYRange: (range: YRange | null) => void;
  onCommand: (command: Command) => void;
}

const HEIGHT = 240;
const NO_X = { text: "", metrics: [], isPlain: false, value: () => Number.NaN };

export const testIdOf = (panel: Pick<Panel, "id">, isFull: boolean): string =>
  `panel-${panel.id}${isFull ? "-full" : ""}`;

/** A panel of any kind. Charts ask for their metrics while they are near the screen. */
export function PanelView(props: Props) {
  const { panel, around, menu, fullHeight } = props;
  const isFull = fullHeight !== null;
  const key = panel.expressions.join("\n");
  const known = around.names.join("\n");
  const x = useMemo(
    () => (panel.x === null ? null : readExpression(panel.x, known.split("\n")).expression),
    [panel.x, known],
  );
  const expressions = useMemo(() => readAll(key.split("\n"), known.split("\n")), [key, known]);
  const frame = { title: panel.title, testId: testIdOf(panel, isFull), menu };
  if (panel.kind === "markdown")
    return (
      <PanelFrame {...frame}>
        <Markdown text={panel.text} />
      </PanelFrame>
    );
  if (panel.kind === "images")
    return (
      <PanelFrame {...frame}>
        {around.runs.map((run) => (
          <Images key={run.id} run={run} names={panel.expressions} isAlone={around.runs.length === 1} />
        ))}
      </PanelFrame>
    );
  const wanted = metricsOf(x ? [x, ...expressions] : expressions);
  const drawn = () => <Chart {...props} expressions={expressions} x={x} />;
  // Only curves are drawn late; the others stay, for the file of the page has what stands there.
  return isFull || panel.kind !== "line" ? (
    <Wanted names={wanted} want={around.want}>
      {drawn}
    </Wanted>
  ) : (
    <WhenSeen names={wanted} want={around.want} isFirst={false}>
      {drawn}
    </WhenSeen>
  );
}

type Read = ReturnType<typeof readAll>;

function Chart({
  panel,
  around,
  menu,
  fullHeight,
  yRange,
  onYRange,
  onCommand,
  expressions,
  x,
}: Props & { expressions: Read; x: Read[number] | null }) {
  const { t } = useTranslation();
  const { search, set, smoothing } = around;
  const source = useMemo(() => expressionSource(expressions, around.source), [expressions, around.source]);
  const testId = testIdOf(panel, fullHeight !== null);
  const drawing = { title: panel.title, testId, height: fullHeight ?? HEIGHT, menu, expressions, source };
  if (expressions.length === 0)
    return (
      <PanelFrame title={panel.title} testId={testId} menu={menu}>
        <p className="dim">{t("panels.unread")}</p>
      </PanelFrame>
    );
  if (panel.kind === "bar") return <BarPanel {...drawing} />;
  if (panel.kind === "histogram") return <HistogramPanel {...drawing} />;
  if (panel.kind === "table") return <TablePanel {...drawing} />;
  if (panel.kind === "scatter") return <ScatterPanel {...drawing} x={x ?? NO_X} sourceOf={around.source} />;
  return (
    <SeriesChart
      id={testId}
      title={panel.title}
      metric={expressions.length === 1 ? (expressions[0]?.text ?? "") : ""}
      source={source}
      x={search.x}
      log={search.log}
      logX={search.logx && search.x !== "wall"}
      clip={search.clip}
      smoothing={smoothing}
      syncKey={`charts-${search.x ?? "step"}`}
      height={fullHeight ?? undefined}
      onZoom={(range) => set({ from: range?.from, to: range?.to })}
      onCommand={onCommand}
      yRange={yRange}
      onYRange={onYRange}
      menu={menu}
    />
  );
}

/** The latest media of these names of a run. */
function Images({ run, names, isAlone }: { run: Shown; names: readonly string[]; isAlone: boolean }) {
  const { t } = useTranslation();
  const all = useQuery(mediaOverview(run.id, run.isRunning)).data?.series;
  const found = (all ?? []).filter((series) => names.includes(series.name));
  return (
    <>
      {isAlone ? null : <p className="dim">{run.name}</p>}
      {all && found.length === 0 ? <p className="dim">{t("panels.noMedia")}</p> : null}
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable */}
      <div className={css["images"]} tabIndex={0} role="group" aria-label={run.name}>
        {found.map((series) => (
          <MediaCard
            key={`${series.name}\n${series.kind}`}
            trialId={run.id}
            series={series}
            step={series.steps.at(-1) ?? 0}
            rank={undefined}
            title={<h4>{series.name}</h4>}
          />
        ))}
      </div>
    </>
  );
}
