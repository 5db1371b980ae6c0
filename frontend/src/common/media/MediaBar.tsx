import "@mantine/core/styles/Slider.css";

import { ActionIcon, Select, Slider, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import * as format from "../../lib/format";
import css from "./media.module.css";

const SLIDING_MS = 150;
const RANKS_LISTED = 1000;

/** Chooses step, rank and names. */
export function MediaBar({
  steps,
  at,
  onStep,
  ranks,
  rank,
  onRank,
  text,
  onText,
}: {
  /** Ascending, at least one. */
  steps: readonly number[];
  /** Place of the chosen step among them. */
  at: number;
  /** null: the newest, also when more come. */
  onStep: (step: number | null) => void;
  ranks: readonly number[];
  rank: number | undefined;
  onRank: (rank: number | undefined) => void;
  text: string;
  onText: (text: string) => void;
}) {
  const { t } = useTranslation();
  return (
    <div className={css["controls"]}>
      <StepSlider steps={steps} at={at} onStep={onStep} />
      {ranks.length > 1 ? (
        <Select
          label={t("media.rank")}
          size="xs"
          w={130}
          allowDeselect={false}
          searchable={ranks.length > 12}
          limit={200}
          value={rank === undefined ? "all" : String(rank)}
          onChange={(value) => onRank(value === null || value === "all" ? undefined : Number(value))}
          data={[
            { value: "all", label: t("media.allRanks") },
            ...ranks.slice(0, RANKS_LISTED).map((no) => ({ value: String(no), label: t("rank.no", { rank: no }) })),
          ]}
          data-testid="media-rank"
        />
      ) : null}
      <TextInput
        label={t("media.find")}
        size="xs"
        w={180}
        value={text}
        maxLength={200}
        onChange={(event) => onText(event.currentTarget.value)}
        data-testid="media-find"
      />
    </div>
  );
}

function StepSlider({
  steps,
  at,
  onStep,
}: {
  steps: readonly number[];
  at: number;
  onStep: (step: number | null) => void;
}) {
  const { t } = useTranslation();
  const last = steps.length - 1;
  const [place, setPlace] = useState(at);
  useEffect(() => setPlace(at), [at]);
  const choose = (to: number): void => onStep(to >= last ? null : (steps[to] ?? null));
  const later = useDebouncedCallback(choose, SLIDING_MS);
  const say = (no: number): string => t("media.step", { step: format.count(steps[no]) });
  const arrow = (by: -1 | 1, label: string) => (
    <Tooltip label={label}>
      <ActionIcon
        variant="default"
        size="md"
        aria-label={label}
        disabled={by < 0 ? place <= 0 : place >= last}
        onClick={() => {
          setPlace(place + by);
          choose(place + by);
        }}
      >
        {by < 0 ? <IconChevronLeft size={15} aria-hidden /> : <IconChevronRight size={15} aria-hidden />}
      </ActionIcon>
    </Tooltip>
  );
  return (
    <div className={css["steps"]} data-testid="media-steps">
      <span className={css["stepWord"]}>
        {say(place)} <span className="dim">{t("media.stepOf", { no: place + 1, count: steps.length })}</span>
      </span>
      <div className={css["stepLine"]}>
        {arrow(-1, t("media.before"))}
        <Slider
          className={css["slider"]}
          min={0}
          max={Math.max(1, last)}
          disabled={last === 0}
          value={place}
          label={say}
          thumbLabel={t("media.chooseStep")}
          thumbValueText={say}
          onChange={(to) => {
            setPlace(Math.min(to, last));
            later(Math.min(to, last));
          }}
        />
        {arrow(1, t("media.after"))}
      </div>
    </div>
  );
}
