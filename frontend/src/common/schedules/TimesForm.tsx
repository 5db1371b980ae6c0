import { Select, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Schedule } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";

export type Times = Pick<Schedule, "cron" | "timezone" | "overlap">;

const OVERLAPS = ["skip", "allow", "replace"] as const;
/** Cron expressions that are offered by name. */
const USUAL = { hourly: "0 * * * *", nightly: "0 2 * * *", weekdays: "0 2 * * 1-5", weekly: "0 2 * * 1" } as const;
type Usual = keyof typeof USUAL;
const isUsual = (value: string | null): value is Usual => value !== null && value in USUAL;

/** Asks when an experiment starts, again and again. */
export function TimesForm({
  title,
  start,
  save,
  onClose,
}: {
  title: string;
  /** The times there are; the form begins with each night in the reader's time zone without them. */
  start?: Times;
  save: (times: Times) => Promise<unknown>;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [cron, setCron] = useState(start?.cron ?? USUAL.nightly);
  const [timezone, setTimezone] = useState(start?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [overlap, setOverlap] = useState<Times["overlap"]>(start?.overlap ?? "skip");
  const action = useMutation({
    mutationFn: () => save({ cron: cron.trim(), timezone, overlap }),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  const usual = (Object.keys(USUAL) as Usual[]).find((key) => USUAL[key] === cron.trim()) ?? "other";
  const zones = [...new Set([timezone, "UTC", ...Intl.supportedValuesOf("timeZone")])];
  return (
    <FormDialog
      title={title}
      ready={cron.trim() !== ""}
      pending={action.isPending}
      error={action.error}
      testId="schedule-form"
      onSubmit={() => action.mutate()}
      onClose={onClose}
    >
      <Select
        label={t("schedules.times")}
        data={[...(Object.keys(USUAL) as Usual[]), "other" as const].map((value) => ({
          value,
          label: t(`schedules.usual.${value}`),
        }))}
        value={usual}
        onChange={(value) => setCron(isUsual(value) ? USUAL[value] : "")}
        allowDeselect={false}
      />
      <TextInput
        label={t("schedules.cron")}
        description={t("schedules.cronHint")}
        value={cron}
        onChange={(event) => setCron(event.currentTarget.value)}
        maxLength={120}
        placeholder="30 2 * * 1-5"
        data-autofocus
      />
      <Select
        label={t("schedules.timezone")}
        data={zones}
        value={timezone}
        onChange={(value) => setTimezone(value ?? "UTC")}
        searchable
        limit={50}
        allowDeselect={false}
      />
      <Select
        label={t("schedules.overlapLong")}
        data={OVERLAPS.map((value) => ({ value, label: t(`schedules.overlaps.${value}`) }))}
        value={overlap}
        onChange={(value) => setOverlap(OVERLAPS.find((one) => one === value) ?? "skip")}
        allowDeselect={false}
      />
    </FormDialog>
  );
}
