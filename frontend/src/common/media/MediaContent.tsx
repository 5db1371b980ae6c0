import { Modal } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";

import type { MediaContent as Content, MediaItem } from "../../api/queries";
import { Notice, Skeleton } from "../../components/basics";
import { ConfusionMatrix } from "./ConfusionMatrix";
import { Histogram, PrCurve } from "./Drawings";
import type { CurveContent, HistogramContent, MatrixContent, TableContent } from "./mediaData";
import { MediaTable } from "./MediaTable";
import css from "./media.module.css";

// With it comes ECharts.
const PlotlyFigure = lazy(() => import("./PlotlyFigure").then((module) => ({ default: module.PlotlyFigure })));

/** What an item shows. Nothing of it is ever run: text is shown as it is, and images are images. */
export function MediaContent({ item, content }: { item: MediaItem; content: Content }) {
  const label = item.caption || `${item.name}, ${item.step}`;
  if (content.text !== null) return <Drawn item={item} text={content.text} label={label} />;
  if (item.mime.startsWith("image/")) return <Picture item={item} url={content.url} label={label} />;
  if (item.mime.startsWith("audio/"))
    // oxlint-disable-next-line jsx-a11y/media-has-caption -- scripts log none; the caption is below
    return <audio controls preload="metadata" src={content.url} aria-label={label} className={css["player"]} />;
  // oxlint-disable-next-line jsx-a11y/media-has-caption
  return <video controls preload="metadata" src={content.url} aria-label={label} className={css["picture"]} />;
}

function Picture({ item, url, label }: { item: MediaItem; url: string; label: string }) {
  const { t } = useTranslation();
  const [isLarge, setIsLarge] = useState(false);
  const size = item.width > 0 && item.height > 0 ? { width: item.width, height: item.height } : {};
  return (
    <>
      <button type="button" className={css["open"]} onClick={() => setIsLarge(true)} title={t("media.enlarge")}>
        <img
          src={url}
          alt={label}
          {...size}
          className={css["picture"]}
          data-small={(item.width > 0 && item.width < 160) || undefined}
        />
      </button>
      <Modal
        opened={isLarge}
        onClose={() => setIsLarge(false)}
        fullScreen
        title={label}
        closeButtonProps={{ "aria-label": t("common.close") }}
      >
        <img src={url} alt={label} className={css["large"]} />
      </Modal>
    </>
  );
}

function Drawn({ item, text, label }: { item: MediaItem; text: string; label: string }) {
  const { t } = useTranslation();
  if (item.kind === "text")
    return (
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a scrolling region must be reachable
      <pre className={css["text"]} tabIndex={0} role="group" aria-label={label} data-testid="media-text">
        {text}
      </pre>
    );
  if (item.kind === "figure")
    return (
      <Suspense fallback={<Skeleton />}>
        <PlotlyFigure text={text} name={item.name} />
      </Suspense>
    );
  const value = parsed(text);
  if (value === null) return <Notice tone="warn">{t("media.broken")}</Notice>;
  if (item.kind === "histogram") return <Histogram content={value as HistogramContent} />;
  if (item.kind === "pr_curve") return <PrCurve content={value as CurveContent} />;
  if (item.kind === "table") return <MediaTable content={value as TableContent} label={label} />;
  const { classes, counts } = value as MatrixContent;
  return <ConfusionMatrix names={classes} counts={counts} />;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
