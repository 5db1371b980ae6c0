import { Button, Tooltip } from "@mantine/core";
import { IconFileExport } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import type { Panel } from "../../api/queries";
import { useTimeZone } from "../../components/Time";
import { download, fileName, pictureOf, toSvg } from "../../charts/export";
import type { Source, View } from "../../charts/series/lines";
import { pageFile, type PageTable } from "../../charts/pageFile";
import { readPalette } from "../../charts/palette";
import { toPicture } from "../../charts/svgFile";
import { readRanges } from "../../charts/series/yRanges";
import type { ChartSpec } from "../../lib/series/series";
import { stamp } from "../../lib/time";
import { expressionSource, metricsOf, readAll } from "./panelLines";
import { type Around, testIdOf } from "./PanelView";

/** A file of more would be too large to send and to open. */
const CHARTS_MAX = 300;
const SIZE = { width: 560, height: 220 };
/** As long as a page waits for the points of charts that nobody has looked at yet. */
const WAIT_MS = 60_000;
const IMAGE_BYTES_MAX = 2_000_000;

/** What a page says besides its charts. */
export interface PageContent {
  specs: readonly ChartSpec[];
  title: string;
  facts: readonly string[];
  tables: readonly PageTable[];
}

interface Props extends PageContent {
  around: Around;
  panels: readonly Panel[];
}

/** A chart in the file: from points, as one that nobody has looked at is drawn nowhere. */
interface Curves {
  id: string;
  group: string;
  metric: string;
  yRange: string;
  names: string[];
  source: Source;
}

function curvesOf({ around, specs, panels }: Props): Curves[] {
  const own = panels
    .filter((panel) => panel.kind === "line")
    .map((panel): Curves => {
      const expressions = readAll(panel.expressions, around.names);
      return {
        id: panel.title,
        group: PANELS,
        metric: expressions.length === 1 ? (expressions[0]?.text ?? "") : "",
        yRange: `panel:${panel.id}`,
        names: metricsOf(expressions),
        source: expressionSource(expressions, around.source),
      };
    });
  const charts = specs.map((spec): Curves => ({
    id: spec.id,
    group: spec.group,
    metric: spec.id,
    yRange: spec.id,
    names: spec.names,
    source: around.source(spec.names),
  }));
  return [...own, ...charts];
}

const PANELS = "";

/** Saves the page as one file that can be sent to somebody without an account. */
export function ExportPage(props: Props) {
  const { around, title, facts, tables, panels } = props;
  const { t, i18n } = useTranslation();
  const zone = useTimeZone();
  const { search } = around;
  const make = async (all: readonly Curves[], shown: readonly Curves[]): Promise<string> => {
    const ranges = readRanges(search.yr);
    const view: View = {
      x: search.x ?? "step",
      logX: (search.logx ?? false) && search.x !== "wall",
      logY: search.log ?? false,
      smoothing: around.smoothing,
      clip: search.clip ?? false,
    };
    const xName = view.x === "step" ? t("chart.step") : t(`metrics.xKind.${view.x}`);
    const palette = readPalette();
    const groups = new Map<string, string[]>();
    const without: string[] = [];
    shown.forEach(({ id, group, metric, yRange, source }, no) => {
      const lines = source.lines().filter((line) => line.columns.step.length > 0);
      if (lines.length === 0) {
        without.push(id);
        return;
      }
      const own = { ...view, y: ranges.get(yRange) };
      const picture = pictureOf({ title: id, metric, lines, view: own, xName, zone, palette }, SIZE);
      groups.set(group, [...(groups.get(group) ?? []), toSvg(picture, `area${no}`)]);
    });
    const standing = await standingPanels(panels);
    return pageFile({
      title,
      lang: i18n.language,
      facts: [...facts, t("pageFile.made", { at: stamp(Date.now(), zone) })],
      remarks: [
        ...(all.length > shown.length ? [t("pageFile.cut", { n: shown.length, all: all.length })] : []),
        ...(without.length > 0 ? [t("pageFile.noPoints", { names: without.join(", ") })] : []),
      ],
      panels: [...(groups.get(PANELS) ?? []), ...standing],
      groups: [...groups].flatMap(([group, charts]) => (group === PANELS ? [] : [{ title: `${group}/`, charts }])),
      tables,
      palette,
    });
  };
  const save = useMutation({
    mutationFn: async () => {
      const all = curvesOf(props);
      const shown = all.slice(0, CHARTS_MAX);
      const release = around.want([...new Set(shown.flatMap((one) => one.names))]);
      try {
        await everyReady(shown.map(({ source }) => source));
        download(`${fileName(title)}.html`, await make(all, shown), "text/html");
      } finally {
        release();
      }
    },
  });
  return (
    <>
      <Tooltip label={t("pageFile.hint")}>
        <Button
          variant="subtle"
          color="gray"
          size="compact-xs"
          leftSection={<IconFileExport size={14} aria-hidden />}
          loading={save.isPending}
          onClick={() => save.mutate()}
          data-testid="export-page"
        >
          {t(save.isPending ? "pageFile.exporting" : "pageFile.export")}
        </Button>
      </Tooltip>
      {save.error ? <span role="alert">{t("pageFile.failed")}</span> : null}
    </>
  );
}

/** Wait until every source has its first answer, or failed, for at most a minute. */
async function everyReady(all: readonly Source[]): Promise<void> {
  const isReady = (): boolean => all.every((source) => source.ready() || source.error?.());
  await new Promise<void>((resolve) => {
    const ends: (() => void)[] = [];
    const end = (): void => {
      clearTimeout(timer);
      for (const one of ends) one();
      resolve();
    };
    const timer = setTimeout(end, WAIT_MS);
    const check = (): void => (isReady() ? end() : undefined);
    ends.push(...all.map((source) => source.subscribe(check)));
    check();
  });
}

/** Panels that are no curves, as they stand on the page: drawings as they are exported one by one, the others as elements. */
async function standingPanels(panels: readonly Panel[]): Promise<string[]> {
  const out: string[] = [];
  for (const panel of panels) {
    const figure = document.querySelector<HTMLElement>(`[data-testid="${testIdOf(panel, false)}"]`);
    if (panel.kind === "line" || !figure) continue;
    const svg = figure.querySelector<SVGSVGElement>("svg[role=img]");
    // A drawing that is looked at as a table stands there as one.
    const body = figure.querySelector<HTMLElement>("[data-report], div:has(> table)");
    // oxlint-disable-next-line no-await-in-loop -- images of one panel after the other
    if (body) out.push(await standing(panel.title, body));
    else if (svg) out.push(toPicture(svg, panel.title, []).text);
  }
  return out;
}

function heading(title: string): string {
  const element = document.createElement("h3");
  element.textContent = title;
  return element.outerHTML;
}

/** Elements without what belongs to the page alone, and with their images in place of addresses. */
async function standing(title: string, body: HTMLElement): Promise<string> {
  const copy = body.cloneNode(true) as HTMLElement;
  for (const button of copy.querySelectorAll("button, script, style, [role=tooltip]")) button.remove();
  for (const element of copy.querySelectorAll("*"))
    for (const name of ["class", "style", "tabindex", "data-testid"]) element.removeAttribute(name);
  const images = [...copy.querySelectorAll("img")];
  await Promise.all(images.map(async (image) => (image.src = await inlined(image.src))));
  return heading(title) + copy.innerHTML;
}

async function inlined(address: string): Promise<string> {
  const blob = await (await fetch(address)).blob();
  if (blob.size > IMAGE_BYTES_MAX || !blob.type.startsWith("image/")) return "";
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(String(reader.result)));
    reader.addEventListener("error", () => reject(reader.error ?? new Error("unread")));
    reader.readAsDataURL(blob);
  });
}
