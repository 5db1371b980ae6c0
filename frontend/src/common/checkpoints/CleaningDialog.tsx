import { Badge, Button, Group, Modal, NumberInput } from "@mantine/core";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import { Notice } from "../../components/basics";
import { column, DataTable, lead, numeric } from "../../components/tables/DataTable";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";

const RULES = ["last", "best", "experiment_best"] as const;
type Numbers = Partial<Record<(typeof RULES)[number], number | undefined>>;
const MAX_KEPT = 10_000;

/** What a policy would keep of an experiment's checkpoints and why, before anything goes. */
export function CleaningDialog({
  experimentId,
  mayClean,
  onClose,
}: {
  experimentId: number;
  mayClean: boolean;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [numbers, setNumbers] = useState<Numbers>({});
  const [asked, setAsked] = useState(false);
  const plan = useQuery({
    queryKey: ["experiment", experimentId, "cleaning", numbers],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/experiments/{experiment_id}/checkpoints:plan", {
          params: { path: { experiment_id: experimentId }, query: numbers },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const clean = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/experiments/{experiment_id}/checkpoints:clean", {
          params: { path: { experiment_id: experimentId } },
          body: { last: numbers.last ?? 0, best: numbers.best ?? 0, experiment_best: numbers.experiment_best ?? 0 },
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  const given = RULES.some((rule) => numbers[rule] !== undefined);
  return (
    <Modal opened onClose={onClose} title={t("cleaning.title")} size="xl">
      <p className={`dim ${layout["aboveNone"]}`}>{t("cleaning.text")}</p>
      <Group align="end">
        {RULES.map((rule) => (
          <NumberInput
            key={rule}
            label={t(`cleaning.${rule}`)}
            value={numbers[rule] ?? ""}
            onChange={(value) => {
              setAsked(false);
              setNumbers((old) => ({ ...old, [rule]: typeof value === "number" ? value : undefined }));
            }}
            min={0}
            max={MAX_KEPT}
            clampBehavior="strict"
            allowDecimal={false}
            w={190}
            data-testid={`cleaning-${rule}`}
          />
        ))}
      </Group>
      <QueryView query={plan}>
        {(data) => (
          <>
            <Notice
              tone={data.num_dropped > 0 ? "warn" : "ok"}
              title={t("cleaning.goes", {
                count: data.num_dropped,
                of: format.count(data.num_dropped + data.num_kept),
                size: format.bytes(data.freed_bytes),
              })}
            >
              <span data-testid="cleaning-policy">
                {t(given ? "cleaning.byNumbers" : "cleaning.byDocument", { policy: data.policy })}
              </span>
            </Notice>
            {data.checkpoints.length > 0 ? <Verdicts plan={data} /> : null}
            {clean.error ? <ErrorNotice error={clean.error} /> : null}
            <Group justify="flex-end" mt="md">
              <Button variant="default" onClick={onClose}>
                {t("common.close")}
              </Button>
              {mayClean && given && data.num_dropped > 0 ? (
                <Button
                  color="red"
                  loading={clean.isPending}
                  disabled={plan.isPlaceholderData}
                  onClick={() => (asked ? clean.mutate() : setAsked(true))}
                  data-testid="cleaning-delete"
                >
                  {t(asked ? "cleaning.really" : "cleaning.delete", { count: data.num_dropped })}
                </Button>
              ) : null}
            </Group>
          </>
        )}
      </QueryView>
    </Modal>
  );
}

/** Each checkpoint, and what the policy says of it. */
function Verdicts({ plan }: { plan: Schemas["CleaningPlanOut"] }) {
  const { t } = useTranslation();
  return (
    <DataTable<(typeof plan.checkpoints)[number]>
      rows={plan.checkpoints}
      rowKey={(row) => row.id}
      label={t("cleaning.title")}
      testId="cleaning-plan"
      columns={[
        lead("step", t("checkpoints.step"), (row) => <b className="num">{format.count(row.step)}</b>),
        numeric("trial", t("cleaning.trial"), (row) => format.count(row.trial_no)),
        numeric("value", plan.metric ?? t("cleaning.value"), (row) => format.num(row.value)),
        numeric("size", t("checkpoints.size"), (row) => format.bytes(row.size_bytes)),
        column("verdict", t("cleaning.verdict"), (row) => (
          <Badge size="xs" variant="light" color={row.is_kept ? "green" : "orange"}>
            {t(row.is_kept ? "cleaning.stays" : "cleaning.willGo")}
          </Badge>
        )),
        column("why", t("cleaning.why"), (row) => row.reason),
      ]}
    />
  );
}
