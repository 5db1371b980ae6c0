import { NumberInput, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { cluster, type ExperimentDetail, type PoolSlots, projects } from "../../api/queries";
import { FormDialog } from "../../components/dialogs/FormDialog";
import layout from "../../components/layout.module.css";
import { forkFrom } from "../../lib/forking";
import { useIdempotency } from "../../lib/idempotency";
import { KIND_NAMES, SESSION_KINDS, sessionDocument, type SessionKind } from "./sessionDocument";

const keyOf = ({ pool, slot_type: kind }: Pick<PoolSlots, "pool" | "slot_type">): string => `${pool}/${kind}`;

/** Asks what a session is to be, and starts it. source: the experiment that it is opened from. */
export function StartSession({
  source,
  onStart,
  onClose,
}: {
  source?: ExperimentDetail;
  onStart: (experimentId: number) => void;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const pools = useQuery(cluster).data?.pools ?? [];
  const names = useInfiniteQuery(projects).data?.pages.flatMap((page) => page.items.map(({ name }) => name)) ?? [];
  const [kind, setKind] = useState<SessionKind>("jupyter");
  const [name, setName] = useState("");
  const [slots, setSlots] = useState<string | number>(1);
  const [idle, setIdle] = useState("30m");
  const [project, setProject] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const used = source?.config["resources"] as Pick<PoolSlots, "pool" | "slot_type"> | undefined;
  const first = pools.find((one) => one.pool === "default") ?? pools[0];
  const where = chosen ?? (used ? keyOf(used) : first ? keyOf(first) : null);
  const idempotencyKey = useIdempotency();
  const start = useMutation({
    mutationFn: async () => {
      const [poolName, slotType] = where?.split("/") ?? [];
      const wish = { kind, name, idle, project, slots: Number(slots), pool: poolName, slotType };
      const document = JSON.stringify(sessionDocument(wish, source), null, 2);
      const header = { "idempotency-key": idempotencyKey([document, source?.id]) };
      if (source === undefined)
        return await unwrap(
          client.POST("/api/v1/experiments", { params: { header }, body: { document, overrides: [] } }),
        );
      const saved = await unwrap(
        client.GET("/api/v1/checkpoints", { params: { query: { experiment: source.id, limit: 1 } } }),
      );
      const from = saved.items.length > 0 ? forkFrom(source.id, "latest", "all") : null;
      return await unwrap(
        client.POST("/api/v1/experiments/{experiment_id}:fork", {
          params: { path: { experiment_id: source.id }, header },
          body: { document, overrides: [], from },
        }),
      );
    },
    onSuccess: async ({ id }) => {
      await queryClient.invalidateQueries();
      onStart(id);
    },
  });
  return (
    <FormDialog
      title={source ? t("interactive.startFrom", { name: source.name, id: source.id }) : t("interactive.start")}
      action={t("interactive.startButton")}
      ready={Number(slots) >= 1 && idle.trim() !== ""}
      pending={start.isPending}
      error={start.error}
      testId="session-form"
      onSubmit={() => start.mutate()}
      onClose={onClose}
    >
      {source ? <p className={layout["text"]}>{t("interactive.startFromHint")}</p> : null}
      <Select
        label={t("interactive.kind")}
        description={t(`interactive.needs.${kind}`)}
        data={SESSION_KINDS.map((value) => ({ value, label: KIND_NAMES[value] ?? t("interactive.shell") }))}
        value={kind}
        onChange={(value) => setKind(SESSION_KINDS.find((one) => one === value) ?? "shell")}
        allowDeselect={false}
        data-autofocus
      />
      <Select
        label={t("interactive.pool")}
        data={pools.map((one) => ({
          value: keyOf(one),
          label: t("interactive.free", {
            pool: one.pool,
            kind: one.slot_type,
            free: one.num_slots_free,
            count: one.num_slots,
          }),
        }))}
        value={where}
        onChange={setChosen}
        allowDeselect={false}
      />
      <NumberInput
        label={t("interactive.slotsLabel")}
        description={t("interactive.slotsHint")}
        value={slots}
        onChange={setSlots}
        min={1}
        allowDecimal={false}
      />
      <Select
        label={t("interactive.project")}
        data={names}
        value={project}
        placeholder={(source?.config["project"] as string | undefined) ?? t("interactive.projectDefault")}
        onChange={setProject}
        searchable
        clearable
      />
      <TextInput
        label={t("interactive.idle")}
        description={t("interactive.idleHint")}
        value={idle}
        onChange={(event) => setIdle(event.currentTarget.value)}
        maxLength={32}
      />
      <TextInput
        label={t("interactive.name")}
        placeholder={`session-${kind}`}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={128}
      />
    </FormDialog>
  );
}
