import type { RefObject } from "react";
import uPlot from "uplot";

import { useTimeZone } from "../components/Time";
import { download, fileName, toCsv, toJson, toPng, toSvg } from "./export";
import type { Line, View } from "./lines";
import { readPalette } from "./palette";
import { type FileKind, SaveMenu } from "./SaveMenu";

/** A chart as a file. The picture is what stands on the screen, so it needs the chart, not the table. */
export function ChartMenu({
  title,
  metric,
  view,
  plot,
  lines,
}: {
  title: string;
  metric: string;
  view: View;
  plot: RefObject<uPlot | null>;
  lines: () => Line[];
}) {
  const zone = useTimeZone();
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
    const picture = {
      title,
      metric,
      lines: lines().filter((line) => line.columns.step.length > 0),
      view,
      zone,
      palette: readPalette(),
      plot: u,
      area,
    };
    if (kind === "svg") return download(`${name}.svg`, toSvg(picture), "image/svg+xml");
    const blob = await toPng({ ...picture, canvas: u.ctx.canvas, ratio });
    return blob ? download(`${name}.png`, blob) : undefined;
  };
  return <SaveMenu title={title} data={["csv", "json"]} onSave={(kind) => void save(kind)} />;
}
