import { Button, Group, Modal, NumberInput, Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../../api/client";
import { type ExperimentDetail, me, type Search } from "../../../api/queries";
import { Section } from "../../../components/basics";
import { ErrorNotice } from "../../../components/QueryView";
import { mayChange } from "../../../lib/access";
import * as format from "../../../lib/format";
import { isTerminal } from "../../../lib/states";
import { changedLimits, type Limits, limitsOf, TRIALS_MAX } from "./limits";
import layout from "../../../components/layout.module.css";

/** How many trials a search makes, how many at once, and the form that changes both while it goes on. */
export function SearchLimits({ experiment: data, search }: { experiment: ExperimentDetail; search: Search }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const [editing, setEditing] = useState(false);
  const limits = limitsOf(data.config, search);
  const edit =
    mayChange(user, data.owner) && !isTerminal(data.state) && !search.finished ? (
      <Button variant="subtle" size="compact-xs" onClick={() => setEditing(true)} data-testid="edit-limits">
        {t("search.changeLimits")}
      </Button>
    ) : null;
  return (
    <Section guide="concepts/search#change-a-running-search" title={t("search.limits")} note={edit}>
      <p className={layout["text"]} data-testid="search-limits">
        {search.num_trials_planned === null
          ? t("search.createdSoFar", {
              count: search.num_trials_created,
              created: format.count(search.num_trials_created),
            })
          : t("search.created", {
              created: format.count(search.num_trials_created),
              planned: format.count(search.num_trials_planned),
            })}
        {" · "}
        {limits.concurrent === "auto"
          ? t("search.atOnceAuto")
          : t("search.atOnceNumber", { count: limits.concurrent, n: format.count(limits.concurrent) })}
      </p>
      {editing ? (
        <LimitsDialog
          id={data.id}
          limits={limits}
          created={search.num_trials_created}
          onClose={() => setEditing(false)}
        />
      ) : null}
    </Section>
  );
}

function LimitsDialog({
  id,
  limits,
  created,
  onClose,
}: {
  id: number;
  limits: Limits;
  created: number;
  onClose: () => void;
}) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [trials, setTrials] = useState<number | string>(limits.trials ?? "");
  const [isAuto, setAuto] = useState(limits.concurrent === "auto");
  const [atOnce, setAtOnce] = useState<number | string>(limits.concurrent === "auto" ? "" : limits.concurrent);
  const body = changedLimits(limits, trials, isAuto ? "auto" : atOnce);
  const save = useMutation({
    mutationFn: (changed: Schemas["SearchLimitsIn"]) =>
      unwrap(
        client.PUT("/api/v1/experiments/{experiment_id}/search/limits", {
          params: { path: { experiment_id: id } },
          body: changed,
        }),
      ),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries({ queryKey: ["experiment", id] });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (body !== null) save.mutate(body);
  };
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("search.limits")}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <form onSubmit={submit} data-testid="limits-form" className={layout["stack"]}>
        <NumberInput
          label={t("search.trialsInAll")}
          description={t(limits.fixed ? "search.trialsFixed" : "search.trialsHint", {
            count: created,
            created: format.count(created),
          })}
          value={trials}
          onChange={setTrials}
          min={created}
          max={TRIALS_MAX}
          allowDecimal={false}
          disabled={limits.fixed}
          data-autofocus={!limits.fixed}
        />
        {limits.external ? null : (
          <Switch label={t("search.atOnceAuto")} checked={isAuto} onChange={(e) => setAuto(e.currentTarget.checked)} />
        )}
        {isAuto ? null : (
          <NumberInput
            label={t("search.atOnce")}
            description={t("search.atOnceHint")}
            value={atOnce}
            onChange={setAtOnce}
            min={1}
            max={10_000}
            allowDecimal={false}
            data-testid="at-once"
          />
        )}
        {save.error ? <ErrorNotice error={save.error} /> : null}
        <Group justify="flex-end" mt="xs">
          <Button variant="default" onClick={onClose}>
            {t("common.cancel")}
          </Button>
          <Button type="submit" loading={save.isPending} disabled={body === null}>
            {t("common.save")}
          </Button>
        </Group>
      </form>
    </Modal>
  );
}
