import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";

import { EChart, type Theme } from "../../charts/EChart";
import { Notice } from "../../components/basics";
import { optionOf, plotOf, spotText, tableOf } from "./plotly";

const HEIGHT = 280;

/** A figure of plotly, as far as it is lines, dots, bars or a heat map; what is not drawn is said. */
export function PlotlyFigure({ text, name }: { text: string; name: string }) {
  const { t } = useTranslation();
  const plot = useMemo(() => plotOf(text), [text]);
  const option = useCallback((theme: Theme) => (plot ? optionOf(plot, theme) : {}), [plot]);
  if (plot === null) return <Notice tone="warn">{t("media.notPlotly")}</Notice>;
  const left = plot.left.join(", ");
  if (plot.traces.length === 0) return <Notice>{t("media.plotlyNotDrawn", { types: left || "–" })}</Notice>;
  const title = plot.title || name;
  return (
    <>
      {left ? <Notice>{t("media.plotlyPart", { types: left })}</Notice> : null}
      <EChart
        title={title}
        label={t("media.plotlyLabel", { title, count: plot.traces.length })}
        height={HEIGHT}
        keys={
          plot.traces.length > 1
            ? plot.traces
                .slice(0, 12)
                .map((trace, no) => ({ label: trace.name, color: `var(--series-${no % 6})`, shape: "square" as const }))
            : []
        }
        testId="plotly"
        option={option}
        describe={(series, index) => spotText(plot, series, index)}
        spots={() =>
          plot.traces.flatMap((trace, series) =>
            (trace.kind === "heat" ? trace.z.flat() : trace.y).map((_, index) => ({ series, index })),
          )
        }
        table={() => tableOf(plot)}
      />
    </>
  );
}
