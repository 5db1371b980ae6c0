import { NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import { type Draft, draftOf, parseDraft } from "../../lib/budget";
import { FormDialog } from "./FormDialog";
import layout from "../layout.module.css";

type Body = Schemas["Budget"];

/** Change all limits together; an empty form takes the budget away. */
export function BudgetDialog({
  title,
  text,
  budget,
  currency,
  lengths,
  pending,
  error,
  onSave,
  onClose,
}: {
  title: string;
  /** What happens when a limit is reached. */
  text: string;
  budget: Schemas["BudgetOut"] | null;
  currency: string;
  /** Whether a deadline may be a length of time ("6h"). */
  lengths: boolean;
  pending: boolean;
  error: Error | null;
  onSave: (body: Body | null) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const [draft, setDraft] = useState<Draft>(() => draftOf(budget));
  const set = (change: Partial<Draft>): void => setDraft((before) => ({ ...before, ...change }));
  const parsed = parseDraft(draft);
  return (
    <FormDialog
      title={title}
      action={t(parsed.ok && parsed.body === null ? "budget.takeAway" : "common.save")}
      ready={parsed.ok}
      pending={pending}
      error={error}
      testId="budget-form"
      onSubmit={() => parsed.ok && onSave(parsed.body)}
      onClose={onClose}
    >
      <p className={layout["text"]}>{text}</p>
      <NumberInput
        label={t("budget.measure.slot_hours")}
        value={draft.slotHours}
        onChange={(slotHours) => set({ slotHours })}
        min={0}
        decimalScale={6}
        placeholder={t("budget.noLimit")}
        data-autofocus
      />
      <NumberInput
        label={t("budget.costIn", { currency })}
        value={draft.cost}
        onChange={(cost) => set({ cost })}
        min={0}
        decimalScale={6}
        placeholder={t("budget.noLimit")}
      />
      <TextInput
        label={t("budget.measure.deadline")}
        description={t(lengths ? "budget.deadlineHint" : "budget.momentHint")}
        value={draft.deadline}
        onChange={(e) => set({ deadline: e.currentTarget.value })}
        placeholder={t("budget.noLimit")}
      />
      <TextInput
        label={t("budget.alertLabel")}
        description={t("budget.alertHint")}
        value={draft.alertAt}
        onChange={(e) => set({ alertAt: e.currentTarget.value })}
        error={parsed.ok ? undefined : t("budget.alertWrong", { value: parsed.wrong })}
      />
    </FormDialog>
  );
}
