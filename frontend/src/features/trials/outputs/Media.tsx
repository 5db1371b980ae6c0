import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { mediaOverview, type MediaOverview, type TrialDetail } from "../../../api/queries";
import { MediaBar } from "../../../common/media/MediaBar";
import { MediaCard } from "../../../common/media/MediaCard";
import { named, stepAt, stepsOf } from "../../../common/media/mediaData";
import css from "../../../common/media/media.module.css";
import { Empty, Notice } from "../../../components/basics";
import layout from "../../../components/layout.module.css";
import { QueryView } from "../../../components/QueryView";
import { word } from "../../../i18n/words";
import * as format from "../../../lib/format";
import { isTerminal } from "../../../lib/states";
import { useTrialSearch } from "../address";

const CARDS = 24;

/** What the script has logged beside numbers, at one step. */
export function Media({ trial }: { trial: TrialDetail }) {
  const query = useQuery(mediaOverview(trial.id, !isTerminal(trial.state)));
  return <QueryView query={query}>{(found) => <Found trial={trial} found={found} />}</QueryView>;
}

function Found({ trial, found }: { trial: TrialDetail; found: MediaOverview }) {
  const { t } = useTranslation();
  const [search, set] = useTrialSearch();
  const [text, setText] = useState("");
  const [most, setMost] = useState(CARDS);
  const steps = stepsOf(found.series);
  const ranks = [...new Set(found.series.flatMap((one) => one.ranks))].toSorted((a, b) => a - b);
  const wanted = search.step ?? steps.at(-1) ?? 0;
  const step = stepAt(steps, wanted) ?? steps[0] ?? 0;
  const rank = ranks.find((one) => String(one) === search.rank);
  const shown = named(found.series, text);
  return (
    <>
      <LeftOut found={found} />
      {found.series.length === 0 ? (
        <Empty title={t("media.none")}>{t("media.noneHint")}</Empty>
      ) : (
        <MediaBar
          steps={steps}
          at={steps.indexOf(step)}
          onStep={(to) => set({ step: to ?? undefined })}
          ranks={ranks}
          rank={rank}
          onRank={(to) => set({ rank: to === undefined ? undefined : String(to) })}
          text={text}
          onText={setText}
        />
      )}
      {found.series.length > 0 && shown.length === 0 ? <Empty title={t("media.noMatch")} /> : null}
      <div className={css["cards"]}>
        {shown.slice(0, most).map((series) => (
          <MediaCard
            key={`${series.name}\n${series.kind}`}
            trialId={trial.id}
            series={series}
            step={step}
            rank={rank}
            title={<h2>{series.name}</h2>}
          />
        ))}
      </div>
      {shown.length > most ? (
        <Button variant="default" size="xs" mt="md" onClick={() => setMost(most + CARDS)} data-testid="media-more">
          {t("media.more", { count: shown.length - most })}
        </Button>
      ) : null}
    </>
  );
}

/** What is not shown, and why: never silent. */
function LeftOut({ found }: { found: MediaOverview }) {
  const { t } = useTranslation();
  const all = found.dropped.reduce((sum, one) => sum + one.num, 0);
  const thinned = found.series.filter((one) => one.num_steps > one.steps.length);
  return (
    <>
      {all > 0 ? (
        <Notice tone="warn" title={t("media.leftOut", { count: all, n: format.count(all) })}>
          <ul className={layout["bullets"]} data-testid="media-left-out">
            {found.dropped.map((one) => (
              <li key={one.reason}>
                {format.count(one.num)}: {word(t, "media.reasons", one.reason)}
              </li>
            ))}
          </ul>
        </Notice>
      ) : null}
      {found.num_series > found.series.length ? (
        <Notice>
          {t("media.firstNames", { n: format.count(found.series.length), all: format.count(found.num_series) })}
        </Notice>
      ) : null}
      {thinned.length > 0 ? (
        <Notice>
          {t("media.thinned", {
            names: thinned
              .slice(0, 5)
              .map((one) => one.name)
              .join(", "),
            n: format.count(thinned[0]?.steps.length),
          })}
        </Notice>
      ) : null}
    </>
  );
}
