import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import type { Experiment } from "../../api/queries";
import * as format from "../../lib/format";
import { isTerminal } from "../../lib/states";
import css from "./headline.module.css";
import { polyline, sparkline } from "./sparklines";

const WIDTH = 56;
const HEIGHT = 16;
const STROKE = 1.5;

/** The metric that stands for an experiment: its curve, its last value and its name. */
export function Headline({ item }: { item: Pick<Experiment, "headline" | "state"> }) {
  const { t } = useTranslation();
  const { headline } = item;
  if (!headline) return format.MISSING;
  const { name } = headline;
  const words = {
    name,
    last: format.metric(name, headline.last),
    best: format.metric(name, headline.best),
    step: format.count(headline.step),
  };
  return (
    <span className={css["headline"]} title={t("experiments.headlineTitle", words)}>
      <Sparkline trialId={headline.trial_id} name={name} runs={!isTerminal(item.state)} />
      <span className="num">{words.last}</span>
      <span className={`dim mono ${css["name"]}`}>{name}</span>
    </span>
  );
}

function Sparkline({ trialId, name, runs }: { trialId: number; name: string; runs: boolean }) {
  const curve = useQuery(sparkline(trialId, name, runs)).data ?? [];
  const box = `${-STROKE} ${-STROKE} ${WIDTH + 2 * STROKE} ${HEIGHT + 2 * STROKE}`;
  return (
    <svg className={css["curve"]} width={WIDTH} height={HEIGHT + 2 * STROKE} viewBox={box} aria-hidden>
      <polyline points={polyline(curve, WIDTH, HEIGHT)} fill="none" strokeWidth={STROKE} strokeLinejoin="round" />
    </svg>
  );
}
