import { ActionIcon, Modal, Tooltip } from "@mantine/core";
import { useViewportSize } from "@mantine/hooks";
import { IconAlertTriangle, IconChartLine, IconMaximize, IconTable } from "@tabler/icons-react";
import { type KeyboardEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import type { XKind } from "../../lib/series/axis";
import css from "../chart.module.css";
import { keyPressed } from "./chartKeys";
import { type Arranging, ChartMenu } from "./ChartMenu";
import { pressed } from "./legendKeys";
import type { Source, View } from "./lines";
import type { Window } from "./plotOptions";
import { PointTable } from "./PointTable";
import { useSeriesPlot } from "./useSeriesPlot";
import type { YRange } from "./yRanges";

export type { Line, Source } from "./lines";

export type Command = "logY" | "logX" | "smoothing" | "full";
const COMMANDS: Readonly<Record<string, Command>> = { l: "logY", L: "logX", s: "smoothing", f: "full" };

interface Props {
  id: string;
  title: string;
  /** Its name decides unit and axis format. */
  metric: string;
  source: Source;
  x?: XKind;
  log?: boolean;
  logX?: boolean;
  clip?: boolean;
  smoothing?: number;
  syncKey?: string;
  height?: number;
  onZoom?: (range: Window | null) => void;
  /** Keys of the chart that change settings; without it they do nothing. */
  onCommand?: (command: Command) => void;
  /** The y axis as it was set by hand, and how to set it; null: by the values. */
  yRange?: YRange | null;
  onYRange?: (range: YRange | null) => void;
  /** How its place on the page is changed. */
  arranging?: Arranging;
  /** Stands before the buttons. */
  handle?: ReactNode;
  /** More entries of its menu. */
  menu?: ReactNode;
}

const NONE: ReadonlySet<string> = new Set();

/** The lines that are hidden by a press on the legend; with Ctrl or Shift only the pressed one stays. */
function useHidden(legend: RefObject<HTMLDivElement | null>, source: Source, isTable: boolean): ReadonlySet<string> {
  const [hidden, setHidden] = useState(NONE);
  useEffect(() => {
    const element = legend.current;
    // The keys are written without a render, so one listener hears them all.
    const onClick = (event: MouseEvent): void => {
      const key = (event.target as Element).closest<HTMLElement>("button[data-line]")?.dataset["line"];
      if (key === undefined) return;
      const keys = source.lines().map((line) => line.key);
      const alone = event.ctrlKey || event.metaKey || event.shiftKey;
      setHidden((before) => pressed(before, keys, key, alone));
    };
    element?.addEventListener("click", onClick);
    return () => element?.removeEventListener("click", onClick);
  }, [legend, source, isTable]);
  return hidden;
}

/** A chart that fills the window until it is closed. */
export function FullScreen({
  onClose,
  title,
  children,
}: {
  onClose: () => void;
  title: string;
  children: (height: number) => ReactNode;
}) {
  const { t } = useTranslation();
  const { height } = useViewportSize();
  return (
    <Modal opened fullScreen onClose={onClose} title={title} closeButtonProps={{ "aria-label": t("common.close") }}>
      {height > 0 ? children(Math.max(220, height - 210)) : null}
    </Modal>
  );
}

export function SeriesChart({
  id,
  title,
  metric,
  source,
  x = "step",
  log = false,
  logX = false,
  clip = false,
  smoothing = 0,
  syncKey,
  height = 210,
  onZoom,
  onCommand,
  yRange = null,
  onYRange,
  arranging,
  handle,
  menu,
}: Props) {
  const { t } = useTranslation();
  const figure = useRef<HTMLElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const foot = useRef<HTMLSpanElement>(null);
  const spoken = useRef<HTMLSpanElement>(null);
  const [isTable, setTable] = useState(false);
  const view: View = { x, logX, logY: log, smoothing, clip, y: yRange ?? undefined };
  const parts = { figure, box, legend, foot, spoken };
  const hidden = useHidden(legend, source, isTable);
  const wanted = { title, metric, source, view, height, syncKey, isTable, hidden, onZoom };
  const { plot, note, xName, zoomTo, speak } = useSeriesPlot(parts, wanted);

  const onKey = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    if (keyPressed(event, plot, x, zoomTo, speak)) {
      event.preventDefault();
      return;
    }
    const command = COMMANDS[event.key];
    if (command && onCommand) onCommand(command);
    else if (event.key === "d") setTable(!isTable);
    else return;
    event.preventDefault();
  };

  return (
    <figure
      ref={figure}
      className={css["figure"]}
      data-testid={`chart-${id}`}
      tabIndex={0}
      data-keys="chart"
      onKeyDown={onKey}
      aria-label={title}
      aria-description={t("chart.keys")}
    >
      <div className={css["head"]}>
        <h3 title={title}>{title}</h3>
        {note.bad ? (
          <span className={css["alert"]} data-testid="non-finite">
            <IconAlertTriangle size={13} aria-hidden />
            {note.bad}
          </span>
        ) : null}
        <span className={css["tools"]}>
          {handle}
          <Tool
            label={t(isTable ? "chart.asChart" : "chart.asTable")}
            isOn={isTable}
            onClick={() => setTable(!isTable)}
          >
            {isTable ? <IconChartLine size={14} /> : <IconTable size={14} />}
          </Tool>
          {onCommand ? (
            <Tool label={t("chart.full")} onClick={() => onCommand("full")}>
              <IconMaximize size={14} />
            </Tool>
          ) : null}
          <ChartMenu
            title={title}
            metric={metric}
            view={view}
            xName={xName}
            plot={plot}
            lines={() => source.lines().filter((line) => !hidden.has(line.key))}
            yRange={yRange}
            onYRange={onYRange}
            arranging={arranging}
          >
            {menu}
          </ChartMenu>
        </span>
      </div>
      {isTable ? (
        <PointTable source={source} metric={metric} height={height + 40} kind={x} xName={xName} />
      ) : (
        <>
          <div className={css["legend"]} ref={legend} />
          <div className={css["plot"]} ref={box} style={{ height }}>
            {note.kind ? <div className={css["wait"]}>{t(`chart.${note.kind}`)}</div> : null}
          </div>
          <div className={css["foot"]}>
            <span ref={foot} />
          </div>
          <span className="srOnly" aria-live="polite" ref={spoken} />
        </>
      )}
    </figure>
  );
}

interface ToolProps {
  label: string;
  isOn?: boolean;
  onClick: () => void;
  children: ReactNode;
}

function Tool({ label, isOn, onClick, children }: ToolProps) {
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" variant="subtle" color="gray" onClick={onClick} aria-label={label} aria-pressed={isOn}>
        {children}
      </ActionIcon>
    </Tooltip>
  );
}
