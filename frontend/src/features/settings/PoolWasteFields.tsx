import { Group, NumberInput, Select } from "@mantine/core";
import { useTranslation } from "react-i18next";

import type { Pool } from "../../api/queries";

type Rule = Pool["waste"];
const ACTIONS = ["notice", "checkpoint_and_stop", "stop"] as const;

/** What is done about trials of a pool that hold slots and do nothing. */
export function PoolWasteFields({ rule, onChange }: { rule: Rule; onChange: (rule: Rule) => void }) {
  const { t } = useTranslation();
  const minutes = (label: string, name: "no_step_for_min" | "device_for_min" | "act_after_min", max: number) => (
    <NumberInput
      label={label}
      value={rule[name] ?? ""}
      // Only the first of them may be empty: steps do not matter then.
      onChange={(value) =>
        onChange({ ...rule, [name]: value === "" ? (name === "no_step_for_min" ? null : rule[name]) : Number(value) })
      }
      min={name === "act_after_min" ? 0 : 0.1}
      max={max}
      w={170}
    />
  );
  return (
    <>
      <Select
        label={t("waste.title")}
        description={t("waste.hint")}
        value={rule.action}
        onChange={(value) => onChange({ ...rule, action: ACTIONS.find((one) => one === value) ?? "notice" })}
        allowDeselect={false}
        data={ACTIONS.map((one) => ({ value: one, label: t(`waste.action.${one}`) }))}
        data-testid="pool-waste"
      />
      <Group gap="md" align="end">
        {minutes(t("waste.noStep"), "no_step_for_min", 10_080)}
        {minutes(t("waste.idleFor"), "device_for_min", 1440)}
        {rule.action === "notice" ? null : minutes(t("waste.actAfter"), "act_after_min", 10_080)}
      </Group>
    </>
  );
}
