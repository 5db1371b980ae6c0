import { Button, Group, Modal, NumberInput, SegmentedControl } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import type { ExperimentDetail } from "../../api/queries";
import { ErrorNotice } from "../../components/QueryView";
import { NetworkFields, problemsOf, SizesField } from "./fields";
import { askedAs, LARGEST, MOST, type NetworkText, sizesIn, usualSizes } from "./scalingData";
import layout from "../../components/layout.module.css";

const MAX_REPEATS = 10;
const MIN_STEPS = 10;
const MAX_STEPS = 100_000;

type Mode = "weak" | "strong";

/** Starts the measuring, then opens its report. */
function useBegin(experimentId: number, onClose: () => void) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: ({ body }: { body: Schemas["ScalingIn"]; asked: ReturnType<typeof askedAs> }) =>
      unwrap(
        client.POST("/api/v1/experiments/{experiment_id}/scaling-reports", {
          params: { path: { experiment_id: experimentId } },
          body,
        }),
      ),
    onSuccess: async (made, { asked }) => {
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["scaling", experimentId] });
      await navigate({
        to: "/experiments/$experimentId/scaling",
        params: { experimentId: String(experimentId) },
        search: { report: made.id, ...asked },
      });
    },
  });
}

/** At which sizes, how often and how long it is run, and what else is to be predicted. */
export function StartDialog({ experiment: data, onClose }: { experiment: ExperimentDetail; onClose: () => void }) {
  const { t } = useTranslation();
  const [sizes, setSizes] = useState(() => usualSizes(data.slots_per_trial).join(", "));
  const [mode, setMode] = useState<Mode>("weak");
  const [repeats, setRepeats] = useState<number | string>(3);
  const [steps, setSteps] = useState<number | string>(60);
  const [slotHours, setSlotHours] = useState<number | string>("");
  const [predict, setPredict] = useState("");
  const [network, setNetwork] = useState<NetworkText>({ bandwidth: "", latency: "", measured: "" });
  const chosen = sizesIn(sizes, LARGEST.measured);
  const begin = useBegin(data.id, onClose);
  const start = (): void =>
    begin.mutate({
      body: {
        slots: chosen ?? [],
        mode,
        repeats: Number(repeats),
        steps: Number(steps),
        slot_hours: typeof slotHours === "number" ? slotHours : null,
      },
      asked: askedAs(predict, network),
    });
  const ready =
    chosen !== null &&
    chosen.length > 0 &&
    chosen.length <= MOST.measured &&
    typeof repeats === "number" &&
    typeof steps === "number" &&
    problemsOf(t, predict, network.bandwidth) === null;
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("scaling.form.title")}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <div className={layout["stack"]} data-testid="scaling-form">
        <p className={layout["text"]}>{t("scaling.form.text")}</p>
        <SizesField label={t("scaling.form.sizes")} value={sizes} onChange={setSizes} kind="measured" focus />
        <ModeField mode={mode} isOwn={!data.config["trainer"]} onChange={setMode} />
        <Group grow align="start">
          <NumberInput
            label={t("scaling.form.repeats")}
            description={t("scaling.form.repeatsHint")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            value={repeats}
            onChange={setRepeats}
            min={1}
            max={MAX_REPEATS}
            allowDecimal={false}
          />
          <NumberInput
            label={t("scaling.form.steps")}
            value={steps}
            onChange={setSteps}
            min={MIN_STEPS}
            max={MAX_STEPS}
            allowDecimal={false}
          />
        </Group>
        <NumberInput
          label={t("scaling.form.slotHours")}
          description={t("scaling.form.slotHoursHint")}
          value={slotHours}
          onChange={setSlotHours}
          min={0.001}
          max={1e9}
        />
        <SizesField
          label={t("scaling.form.predict")}
          hint={t("scaling.form.predictHint")}
          value={predict}
          onChange={setPredict}
          kind="predicted"
        />
        <NetworkFields value={network} onChange={setNetwork} />
        {begin.error ? <ErrorNotice error={begin.error} /> : null}
      </div>
      <Group justify="flex-end" mt="md">
        <span className={`dim ${layout["pushed"]}`}>
          {ready ? t("scaling.form.runs", { count: chosen.length * Number(repeats) }) : null}
        </span>
        <Button variant="default" onClick={onClose}>
          {t("common.cancel")}
        </Button>
        <Button disabled={!ready} loading={begin.isPending} onClick={start} data-testid="scaling-begin">
          {t("scaling.form.begin")}
        </Button>
      </Group>
    </Modal>
  );
}

/** Weak or strong scaling; a script of one's own can only be scaled weakly. */
function ModeField({ mode, isOwn, onChange }: { mode: Mode; isOwn: boolean; onChange: (mode: Mode) => void }) {
  const { t } = useTranslation();
  return (
    <div>
      <div id="scaling-mode" className={`${layout["label"]} ${layout["belowXs"]}`}>
        {t("scaling.form.mode")}
      </div>
      <SegmentedControl
        aria-labelledby="scaling-mode"
        value={mode}
        onChange={onChange}
        data={[
          { value: "weak", label: t("scaling.form.weak") },
          { value: "strong", label: t("scaling.form.strong"), disabled: isOwn },
        ]}
      />
      {isOwn ? <p className={`dim ${layout["text"]} ${layout["aboveXs"]}`}>{t("scaling.form.strongOwn")}</p> : null}
    </div>
  );
}
