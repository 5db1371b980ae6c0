import { Checkbox, NumberInput, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { catalog } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";
import layout from "../../components/layout.module.css";
import { inLanguage, type ProviderOption } from "../../lib/catalog";
import { bodyOf, type Draft, draftOf, fresh, isReady } from "./providerForm";

interface Fields {
  draft: Draft;
  set: (changes: Partial<Draft>) => void;
}

/** Gives a pool a provider, or changes it. */
export function ProviderDialog({
  provider,
  onClose,
}: {
  /** null for a pool that has none yet. */
  provider: Schemas["ProviderOut"] | null;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [draft, setDraft] = useState<Draft>(() => (provider ? draftOf(provider) : fresh));
  const set = (changes: Partial<Draft>): void => setDraft({ ...draft, ...changes });
  const found = useQuery(catalog);
  const kinds = found.data?.providers ?? [];
  const known = kinds.find(({ kind }) => kind === draft.kind)?.options ?? [];
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PUT("/api/v1/pools/{name}/provider", {
          params: { path: { name: draft.name.trim() } },
          body: bodyOf(draft, known),
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["pools"] });
    },
  });
  return (
    <FormDialog
      title={provider ? t("provider.changeOf", { name: provider.pool }) : t("provider.add")}
      size="lg"
      ready={isReady(draft, known)}
      pending={save.isPending}
      error={save.error ?? found.error}
      testId="provider-form"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <p className={layout["text"]}>{t("provider.lead")}</p>
      <div className={layout["fields"]}>
        {provider ? null : (
          <TextInput
            label={t("nodes.pool")}
            value={draft.name}
            onChange={(e) => set({ name: e.currentTarget.value })}
            maxLength={64}
            data-autofocus
          />
        )}
        <Select
          label={t("provider.title")}
          value={draft.kind}
          onChange={(value) => set({ kind: kinds.find(({ kind }) => kind === value)?.kind ?? draft.kind })}
          allowDeselect={false}
          data={kinds.map(({ kind, title }) => ({ value: kind, label: title }))}
          w={150}
        />
      </div>
      <Size draft={draft} set={set} />
      <Cost draft={draft} set={set} canRestart={provider !== null} />
      <Options draft={draft} set={set} known={known} />
    </FormDialog>
  );
}

function Size({ draft, set }: Fields) {
  const { t } = useTranslation();
  const number = (field: "slots" | "min" | "max" | "hours" | "idleMinutes", min: number) => (
    <NumberInput
      label={t(`provider.${field}`)}
      value={draft[field]}
      onChange={(value) => set({ [field]: value })}
      min={min}
      decimalScale={field === "hours" || field === "idleMinutes" ? 2 : 0}
      w={130}
    />
  );
  return (
    <>
      <div className={layout["fields"]}>
        {number("slots", 1)}
        <Select
          label={t("provider.slotType")}
          value={draft.slotType}
          onChange={(value) => set({ slotType: value === "cuda" ? "cuda" : "cpu" })}
          allowDeselect={false}
          data={["cpu", "cuda"]}
          w={110}
        />
        {draft.exclusive ? null : number("min", 0)}
        {number("max", 1)}
        {number("hours", 0.1)}
        {number("idleMinutes", 0.2)}
      </div>
      <Checkbox
        label={t("provider.exclusive")}
        description={t("provider.exclusiveHint")}
        checked={draft.exclusive}
        onChange={(e) => set({ exclusive: e.currentTarget.checked })}
      />
    </>
  );
}

function Cost({ draft, set, canRestart }: Fields & { canRestart: boolean }) {
  const { t } = useTranslation();
  return (
    <>
      <div className={layout["fields"]}>
        <NumberInput
          label={t("provider.maxSlotHours")}
          value={draft.maxSlotHours}
          onChange={(value) => set({ maxSlotHours: value })}
          min={0}
          placeholder={t("budget.noLimit")}
          w={200}
        />
        <NumberInput
          label={t("provider.maxCost")}
          value={draft.maxCost}
          onChange={(value) => set({ maxCost: value })}
          min={0}
          placeholder={t("budget.noLimit")}
          w={200}
        />
      </div>
      <p className={`dim ${layout["text"]}`}>{t("provider.costHint")}</p>
      {canRestart ? (
        <Checkbox
          label={t("provider.countAnew")}
          checked={draft.countAnew}
          onChange={(e) => set({ countAnew: e.currentTarget.checked })}
        />
      ) : null}
    </>
  );
}

function Options({ draft, set, known }: Fields & { known: readonly ProviderOption[] }) {
  const { t, i18n } = useTranslation();
  const write = (name: string, value: string): void => set({ options: { ...draft.options, [name]: value } });
  return (
    <>
      <p className={`dim ${layout["text"]}`}>{t("provider.optionsHint")}</p>
      <div className={layout["fields"]}>
        {known.map(({ name, kind, is_required, default: usual, expected }) =>
          kind === "flag" ? (
            <Checkbox
              key={name}
              label={<span className="mono">{name}</span>}
              checked={draft.options[name] === "yes"}
              onChange={(e) => write(name, e.currentTarget.checked ? "yes" : "")}
              w={220}
            />
          ) : (
            <TextInput
              key={name}
              label={<span className="mono">{name}</span>}
              description={expected && inLanguage(expected, i18n.language)}
              placeholder={usual}
              value={draft.options[name] ?? ""}
              onChange={(e) => write(name, e.currentTarget.value)}
              required={is_required}
              maxLength={256}
              w={220}
            />
          ),
        )}
      </div>
    </>
  );
}
