import { Menu } from "@mantine/core";
import { type ReactNode, type RefObject, useState } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";

import { useTimeZone } from "../../components/Time";
import { download, fileName, toCsv, toJson, toPng, toSvg } from "../export";
import type { Line, View } from "./lines";
import { readPalette } from "../palette";
import { RangeDialog } from "./RangeDialog";
import { type FileKind, SaveMenu } from "../SaveMenu";
import type { YRange } from "./yRanges";

/** How a chart's place on its page is changed. */
export interface Arranging {
  isPinned: boolean;
  onPin: () => void;
  /** One place towards the beginning or the end of its group; null: it is there. */
  onEarlier: (() => void) | null;
  onLater: (() => void) | null;
}

interface Props {
  title: string;
  metric: string;
  view: View;
  xName: string;
  plot: RefObject<uPlot | null>;
  lines: () => Line[];
  yRange: YRange | null;
  onYRange?: (range: YRange | null) => void;
  arranging?: Arranging;
  /** More entries. */
  children?: ReactNode;
}

/** What can be done with a chart. As a picture it is what stands on the screen, so that needs the chart, not the table. */
export function ChartMenu({ title, metric, view, xName, plot, lines, yRange, onYRange, arranging, children }: Props) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const [isAsking, setAsking] = useState(false);
  const name = fileName(title);
  const save = async (kind: FileKind): Promise<void> => {
    if (kind === "csv") return download(`${name}.csv`, toCsv(lines()), "text/csv");
    if (kind === "json") return download(`${name}.json`, toJson(title, lines()), "application/json");
    const u = plot.current;
    if (!u) return undefined;
    const ratio = uPlot.pxRatio;
    const area = {
      left: u.bbox.left / ratio,
      top: u.bbox.top / ratio,
      width: u.bbox.width / ratio,
      height: u.bbox.height / ratio,
    };
    const drawn = lines().filter((line) => line.columns.step.length > 0);
    const picture = { title, metric, lines: drawn, view, xName, zone, palette: readPalette(), plot: u, area };
    if (kind === "svg") return download(`${name}.svg`, toSvg(picture), "image/svg+xml");
    const blob = await toPng({ ...picture, canvas: u.ctx.canvas, ratio });
    return blob ? download(`${name}.png`, blob) : undefined;
  };
  return (
    <>
      <SaveMenu title={title} data={["csv", "json"]} onSave={(kind) => void save(kind)}>
        {children}
        {arranging ? <ArrangingItems arranging={arranging} /> : null}
        {onYRange ? <Menu.Item onClick={() => setAsking(true)}>{t("chart.range")}</Menu.Item> : null}
        {children || arranging || onYRange ? <Menu.Divider /> : null}
      </SaveMenu>
      {isAsking && onYRange ? (
        <RangeDialog title={title} range={yRange} onRange={onYRange} onClose={() => setAsking(false)} />
      ) : null}
    </>
  );
}

function ArrangingItems({ arranging: { isPinned, onPin, onEarlier, onLater } }: { arranging: Arranging }) {
  const { t } = useTranslation();
  return (
    <>
      <Menu.Item onClick={onPin}>{t(isPinned ? "chart.unpin" : "chart.pin")}</Menu.Item>
      <Menu.Item onClick={() => onEarlier?.()} disabled={onEarlier === null}>
        {t("chart.earlier")}
      </Menu.Item>
      <Menu.Item onClick={() => onLater?.()} disabled={onLater === null}>
        {t("chart.later")}
      </Menu.Item>
    </>
  );
}
