import { Button, Group, Modal, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { rangeOf, type YRange } from "./yRanges";

/** Asks for the ends of a y axis; an empty one follows the values. */
export function RangeDialog({
  title,
  range,
  onRange,
  onClose,
}: {
  title: string;
  range: YRange | null;
  onRange: (range: YRange | null) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [low, setLow] = useState(String(range?.[0] ?? ""));
  const [high, setHigh] = useState(String(range?.[1] ?? ""));
  const isEmpty = low.trim() === "" && high.trim() === "";
  const wanted = rangeOf(low, high);
  const problem = (text: string): boolean => text.trim() !== "" && !Number.isFinite(Number(text));
  const isCrossed = !isEmpty && wanted === null && !problem(low) && !problem(high);
  const isWrong = isCrossed || problem(low) || problem(high);
  const close = (next: YRange | null): void => {
    onRange(next);
    onClose();
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!isWrong) close(wanted);
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("chart.rangeOf", { title })}
      size="sm"
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={submit}>
        <Group grow align="flex-start">
          <TextInput
            label={t("chart.rangeMin")}
            placeholder={t("chart.auto")}
            inputMode="decimal"
            value={low}
            onChange={(event) => setLow(event.currentTarget.value)}
            error={problem(low) ? t("chart.noNumber") : undefined}
            data-autofocus
          />
          <TextInput
            label={t("chart.rangeMax")}
            placeholder={t("chart.auto")}
            inputMode="decimal"
            value={high}
            onChange={(event) => setHigh(event.currentTarget.value)}
            error={problem(high) ? t("chart.noNumber") : isCrossed ? t("chart.rangeCrossed") : undefined}
          />
        </Group>
        <Group justify="flex-end" mt="md">
          <Button variant="default" disabled={range === null} onClick={() => close(null)}>
            {t("chart.auto")}
          </Button>
          <Button type="submit" disabled={isWrong}>
            {t("chart.apply")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
