import { ActionIcon, Button, NumberInput, Select, TextInput } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import type { Schemas } from "../../api/client";
import { FormDialog } from "../../components/dialogs/FormDialog";
import layout from "../../components/layout.module.css";
import type { ProjectDialogProps } from "./ProjectDialogs";

type Quota = Schemas["QuotaIn"];
interface Row {
  key: number;
  pool: string;
  slot_type: Quota["slot_type"];
  slots: number | string;
}

/** A project's weight and all of its quotas. */
export function ShareDialog({ project, onSave, ...form }: ProjectDialogProps) {
  const { t } = useTranslation();
  const next = useRef(project.quotas.length);
  const [weight, setWeight] = useState<number | string>(project.weight);
  const [rows, setRows] = useState<Row[]>(() =>
    project.quotas.map((quota, key) => ({
      key,
      pool: quota.pool,
      slot_type: quota.slot_type === "cuda" ? "cuda" : "cpu",
      slots: quota.slots,
    })),
  );
  const change = (key: number, patch: Partial<Row>): void =>
    setRows((before) => before.map((row) => (row.key === key ? { ...row, ...patch } : row)));
  const valid = Number(weight) > 0 && rows.every((row) => row.pool.trim() !== "" && typeof row.slots === "number");
  const save = (): void =>
    onSave({
      weight: Number(weight),
      quotas: rows.map(({ pool, slot_type, slots }) => ({ pool: pool.trim(), slot_type, slots: Number(slots) })),
    });
  const add = (): void => {
    next.current += 1;
    setRows((before) => [...before, { key: next.current, pool: "default", slot_type: "cpu", slots: "" }]);
  };
  return (
    <FormDialog
      {...form}
      title={t("projects.shareOf", { name: project.name })}
      ready={valid}
      testId="share-form"
      onSubmit={save}
    >
      <NumberInput
        label={t("projects.weight")}
        description={t("projects.weightLong")}
        value={weight}
        onChange={setWeight}
        min={0.001}
        max={1000}
        step={0.5}
        decimalScale={3}
        w={200}
        data-autofocus
      />
      <div>
        <b>{t("projects.quotas")}</b>
        <div className="dim">{t("projects.quotaLong")}</div>
      </div>
      {rows.map((row) => (
        <QuotaFields
          key={row.key}
          row={row}
          onChange={(patch) => change(row.key, patch)}
          onRemove={() => setRows((before) => before.filter((other) => other.key !== row.key))}
        />
      ))}
      <Button
        variant="default"
        size="compact-sm"
        leftSection={<IconPlus size={14} aria-hidden />}
        onClick={add}
        className={layout["start"]}
        data-testid="add-quota"
      >
        {t("projects.addQuota")}
      </Button>
    </FormDialog>
  );
}

function QuotaFields({
  row,
  onChange,
  onRemove,
}: {
  row: Row;
  onChange: (patch: Partial<Row>) => void;
  onRemove: () => void;
}) {
  const { t } = useTranslation();
  return (
    <div className={`${layout["fields"]} ${layout["fixed"]}`}>
      <TextInput
        label={t("nodes.pool")}
        value={row.pool}
        onChange={(e) => onChange({ pool: e.currentTarget.value })}
        flex={1}
      />
      <Select
        label={t("nodes.type")}
        value={row.slot_type}
        onChange={(value) => onChange({ slot_type: value as Row["slot_type"] })}
        data={["cpu", "cuda"]}
        allowDeselect={false}
        w={90}
      />
      <NumberInput
        label={t("projects.slots")}
        value={row.slots}
        onChange={(slots) => onChange({ slots })}
        min={0}
        allowDecimal={false}
        w={110}
      />
      <ActionIcon
        variant="subtle"
        color="gray"
        size={30}
        onClick={onRemove}
        aria-label={t("projects.removeQuota", { pool: row.pool, type: row.slot_type })}
      >
        <IconX size={14} aria-hidden />
      </ActionIcon>
    </div>
  );
}
