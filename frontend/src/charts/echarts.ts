/** The parts of ECharts that are used. Large: import it only from what is loaded when it is looked at. */
import { BarChart, CustomChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from "echarts/charts";
import {
  AriaComponent,
  GridComponent,
  ParallelComponent,
  TooltipComponent,
  VisualMapContinuousComponent,
} from "echarts/components";
import { type EChartsType, init, use as register } from "echarts/core";
import { CanvasRenderer, SVGRenderer } from "echarts/renderers";
import type { EChartsOption } from "echarts/types/dist/shared";

register([
  AriaComponent,
  BarChart,
  CanvasRenderer,
  CustomChart,
  GridComponent,
  HeatmapChart,
  LineChart,
  ParallelChart,
  ParallelComponent,
  SVGRenderer,
  ScatterChart,
  TooltipComponent,
  VisualMapContinuousComponent,
]);

export type { EChartsOption, EChartsType };
export { init };

/** The same drawing as SVG: what is inside of the svg element. Text, because to parse it would apply its styles to the
 * page, which the content security policy forbids. */
export function svgOf(
  option: EChartsOption,
  width: number,
  height: number,
): { inner: string; width: number; height: number } {
  const chart = init(null, null, { renderer: "svg", ssr: true, width, height });
  try {
    // What is drawn over several frames on a canvas has only one here.
    const series = [option.series ?? []].flat().map((one) => ({ ...one, progressive: 0, large: false }));
    chart.setOption({ ...option, series } as EChartsOption);
    const text = chart.renderToSVGString();
    return { inner: text.slice(text.indexOf(">") + 1, text.lastIndexOf("</svg>")), width, height };
  } finally {
    chart.dispose();
  }
}
