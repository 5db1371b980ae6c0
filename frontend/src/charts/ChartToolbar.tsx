import { Button, SegmentedControl, Switch, TextInput, Tooltip } from "@mantine/core";
import { IconSearch, IconZoomReset, IconZoomScan } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import { PhoneFold } from "../components/tables/PhoneFold";
import { useTimeZone } from "../components/Time";
import { useTyped } from "../components/useTyped";
import { type OfferedKind, X_KINDS } from "../lib/series/axis";
import css from "./chart.module.css";
import type { ChartSearch } from "./chartSearch";
import { xText } from "./series/plotOptions";
import { SMOOTHING, useSmoothing } from "./series/smoothing";

/** The settings of a page of charts; all of them stand in the address. `kinds`: the axes there are curves along. `children` come first. */
export function ChartToolbar({
  search,
  set,
  kinds,
  children,
}: {
  search: ChartSearch;
  set: (change: ChartSearch) => void;
  kinds: readonly OfferedKind[];
  children?: ReactNode;
}) {
  const { t } = useTranslation();
  const zone = useTimeZone();
  const [text, setText] = useTyped(search.find, 200, (find) => set({ find }));
  const kind = search.x ?? "step";
  const [smoothing, smooth] = useSmoothing(search, set);
  const steps: number[] = SMOOTHING.includes(smoothing as 0) ? [...SMOOTHING] : [...SMOOTHING, smoothing];
  const end = (value: number | undefined): string => (value === undefined ? "…" : xText(kind, value, zone));
  return (
    <PhoneFold title={t("metrics.toolbar")}>
      <div className={css["toolbar"]} role="toolbar" aria-label={t("metrics.toolbar")}>
        {children}
        <SegmentedControl
          aria-label={t("metrics.x")}
          value={kind}
          onChange={(value) =>
            set({
              x: value === "step" ? undefined : (value as Exclude<OfferedKind, "step">),
              from: undefined,
              to: undefined,
            })
          }
          data={X_KINDS.filter((value) => value === kind || kinds.includes(value)).map((value) => ({
            value,
            label: t(`metrics.xKind.${value}`),
          }))}
        />
        <SegmentedControl
          aria-label={t("metrics.smoothing")}
          value={String(smoothing)}
          onChange={(value) => smooth(Number(value))}
          data={steps.map((value) => ({ value: String(value), label: value === 0 ? t("metrics.raw") : String(value) }))}
        />
        <Switch
          label={t("metrics.logY")}
          checked={search.log ?? false}
          onChange={(e) => set({ log: e.currentTarget.checked || undefined })}
        />
        <Switch
          label={t("metrics.logX")}
          checked={search.logx ?? false}
          onChange={(e) => set({ logx: e.currentTarget.checked || undefined })}
          disabled={kind === "wall"}
        />
        <Tooltip label={t("metrics.clipHint")} multiline maw={300}>
          <Switch
            label={t("metrics.clip")}
            checked={search.clip ?? false}
            onChange={(e) => set({ clip: e.currentTarget.checked || undefined })}
          />
        </Tooltip>
        <TextInput
          aria-label={t("metrics.find")}
          placeholder={t("metrics.find")}
          leftSection={<IconSearch size={14} />}
          value={text}
          onChange={(e) => setText(e.currentTarget.value)}
          w={150}
          data-testid="metric-filter"
          data-filter
        />
        {search.from !== undefined || search.to !== undefined ? (
          <Button
            variant="default"
            leftSection={<IconZoomReset size={14} />}
            onClick={() => set({ from: undefined, to: undefined })}
          >
            {t("metrics.zoomed", { from: end(search.from), to: end(search.to) })}
          </Button>
        ) : (
          <Tooltip label={t("metrics.zoomHint")}>
            <span className={css["hint"]} role="img" aria-label={t("metrics.zoomHint")}>
              <IconZoomScan size={16} aria-hidden />
            </span>
          </Tooltip>
        )}
      </div>
    </PhoneFold>
  );
}
