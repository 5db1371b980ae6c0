import { Button, Group } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { me, type TrialDetail } from "../../../api/queries";
import { Notice } from "../../../components/basics";
import { Reason } from "../../../components/text/Message";
import { mayChange } from "../../../lib/access";

const HOURS = [1, 8, 24] as const;

/** Says that a trial holds slots and does nothing; its owner keeps it running with one click. */
export function WasteNotice({ trial, owner }: { trial: TrialDetail; owner: string | null }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const isMine = mayChange(useQuery(me).data, owner);
  const keep = useMutation({
    mutationFn: (hours: number) =>
      unwrap(
        client.POST("/api/v1/trials/{trial_id}:keep", { params: { path: { trial_id: trial.id } }, body: { hours } }),
      ),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["trial", trial.id] }),
  });
  if (!trial.waste) return null;
  return (
    <Notice tone="warn">
      <span data-testid="waste">
        <Reason text={trial.waste.text} parts={trial.waste.parts} />
      </span>
      {isMine ? (
        <Group gap="xs" mt="xs" role="group" aria-label={t("waste.keep")}>
          <span>{t("waste.keep")}</span>
          {HOURS.map((hours) => (
            <Button
              key={hours}
              size="compact-xs"
              variant="default"
              disabled={keep.isPending}
              onClick={() => keep.mutate(hours)}
              data-testid={`keep-${hours}`}
            >
              {t("waste.hours", { count: hours })}
            </Button>
          ))}
        </Group>
      ) : null}
      {keep.error ? <p role="alert">{keep.error.message}</p> : null}
    </Notice>
  );
}
