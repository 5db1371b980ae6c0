import { Group, NumberInput, TextInput } from "@mantine/core";
import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import { LARGEST, MOST, type NetworkText, numbersIn, sizesIn } from "./scalingData";

/** What is wrong with a list of world sizes; null: nothing. */
function sizesProblem(t: TFunction, text: string, kind: "measured" | "predicted"): string | null {
  const sizes = sizesIn(text, LARGEST[kind]);
  if (sizes === null || (kind === "measured" && sizes.length === 0))
    return t("scaling.form.badSizes", { max: LARGEST[kind] });
  return sizes.length > MOST[kind] ? t("scaling.form.tooMany", { max: MOST[kind] }) : null;
}

function bandwidthProblem(t: TFunction, text: string): string | null {
  const networks = numbersIn(text);
  if (networks === null) return t("scaling.form.badNumbers");
  return networks.length > MOST.networks ? t("scaling.form.tooMany", { max: MOST.networks }) : null;
}

/** What is wrong with what is to be predicted; null: nothing. */
export const problemsOf = (t: TFunction, sizes: string, bandwidth: string): string | null =>
  sizesProblem(t, sizes, "predicted") ?? bandwidthProblem(t, bandwidth);

/** World sizes by comma. */
export function SizesField({
  label,
  hint,
  value,
  onChange,
  kind,
  focus = false,
}: {
  label: string;
  hint?: string;
  value: string;
  onChange: (text: string) => void;
  kind: "measured" | "predicted";
  focus?: boolean;
}) {
  const { t } = useTranslation();
  return (
    <TextInput
      label={label}
      description={hint}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={sizesProblem(t, value, kind)}
      autoComplete="off"
      data-autofocus={focus || undefined}
    />
  );
}

/** Bandwidths of other networks, their latency, and the rate of the network that was measured. */
export function NetworkFields({ value, onChange }: { value: NetworkText; onChange: (value: NetworkText) => void }) {
  const { t } = useTranslation();
  return (
    <Group grow align="end">
      <TextInput
        label={t("scaling.form.bandwidth")}
        value={value.bandwidth}
        onChange={(event) => onChange({ ...value, bandwidth: event.currentTarget.value })}
        error={bandwidthProblem(t, value.bandwidth)}
        placeholder="1000, 25000"
        autoComplete="off"
      />
      <NumberInput
        label={t("scaling.form.latency")}
        placeholder={t("scaling.form.latencyHint")}
        value={value.latency}
        onChange={(latency) => onChange({ ...value, latency })}
        min={0}
        max={1e9}
      />
      <NumberInput
        label={t("scaling.form.measured")}
        placeholder={t("scaling.form.measuredHint")}
        value={value.measured}
        onChange={(measured) => onChange({ ...value, measured })}
        min={0}
        max={1e9}
      />
    </Group>
  );
}
