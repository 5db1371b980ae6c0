import { ActionIcon } from "@mantine/core";
import { IconEye, IconEyeOff, IconFlag, IconFlagFilled, IconX } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import type { TrialDetail } from "../../api/queries";
import { StateBadge } from "../../components/StateBadge";
import { SERIES_ORDER } from "../../charts/palette";
import css from "./compare.module.css";

export interface Compared {
  id: number;
  trial: TrialDetail;
  name: string;
  color: number;
  hidden: boolean;
}

const HUES = 6;

/** The look of a line, for what stands beside a chart. */
export function Swatch({ color }: { color: number }) {
  return (
    <i
      className={css["swatch"]}
      data-hue={SERIES_ORDER[color % HUES]}
      data-dashed={color >= HUES || undefined}
      aria-hidden
    />
  );
}

export function TrialChips({
  compared,
  gone,
  base,
  onBase,
  onRemove,
  onHide,
}: {
  compared: Compared[];
  gone: number[];
  /** The trial that the others are compared with. */
  base: number;
  onBase: (id: number) => void;
  onRemove: (id: number) => void;
  onHide: (id: number) => void;
}) {
  const { t } = useTranslation();
  return (
    <ul className={css["chips"]} data-testid="compared">
      {compared.map(({ id, trial, name, color, hidden }) => (
        <li key={id} data-off={hidden || undefined}>
          <Swatch color={color} />
          <Link to="/trials/$trialId" params={{ trialId: String(id) }} title={name}>
            {name}
          </Link>
          <StateBadge state={trial.state} />
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-pressed={id === base}
            aria-label={t("compare.setBaseline", { name })}
            title={t(id === base ? "compare.isBaseline" : "compare.setBaseline", { name })}
            onClick={() => onBase(id)}
          >
            {id === base ? <IconFlagFilled size={14} /> : <IconFlag size={14} />}
          </ActionIcon>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-pressed={hidden}
            aria-label={t(hidden ? "compare.show" : "compare.hide", { name })}
            onClick={() => onHide(id)}
          >
            {hidden ? <IconEyeOff size={14} /> : <IconEye size={14} />}
          </ActionIcon>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-label={t("compare.remove", { name })}
            onClick={() => onRemove(id)}
          >
            <IconX size={14} />
          </ActionIcon>
        </li>
      ))}
      {gone.map((id) => (
        <li key={id} data-off>
          <span>{t("compare.gone", { id })}</span>
          <ActionIcon
            size="sm"
            variant="subtle"
            color="gray"
            aria-label={t("compare.remove", { name: `#${id}` })}
            onClick={() => onRemove(id)}
          >
            <IconX size={14} />
          </ActionIcon>
        </li>
      ))}
    </ul>
  );
}
