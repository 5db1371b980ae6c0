import { NumberInput, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { catalog, continuation, type ExperimentDetail } from "../../api/queries";
import { Lines, Notice } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { useIdempotency } from "../../lib/idempotency";
import { lengthOf } from "./length";
import { goingOn } from "./operations";
import layout from "../../components/layout.module.css";

/** Let an ended experiment go on: as it was, or longer. Says which trials go on. */
export function ContinueDialog({ experiment: data, onClose }: { experiment: ExperimentDetail; onClose: () => void }) {
  const { t } = useTranslation();
  const keyOf = useIdempotency();
  const before = lengthOf(data.config);
  const [length, setLength] = useState<number | string>("");
  const [override, setOverride] = useState("");
  const asItIs = useQuery(continuation(data.id));
  const isLonger = before !== null && typeof length === "number" && length > before.value;
  const body = {
    length: before && isLonger ? { [before.unit]: Number(length) } : undefined,
    overrides: override.trim() === "" ? [] : [override.trim()],
  };
  const refused = asItIs.data?.outcome === "refused" ? asItIs.data.message : null;
  const known = useQuery(catalog);
  const method = known.data?.search_methods.find(({ name }) => name === data.searcher);
  const going = method ? goingOn(data, method, isLonger) : [];
  const lines = going.map(({ key, count }) => t(`continue.trials.${key}`, { count }));
  return (
    <ConfirmAction
      onClose={onClose}
      title={t("continue.title", { name: data.name, id: data.id })}
      action={t("operation.continue")}
      danger={false}
      ready={(length === "" || isLonger) && (isLonger || override.trim() !== "" || refused === null)}
      run={() =>
        unwrap(
          client.POST("/api/v1/experiments/{experiment_id}:continue", {
            params: { path: { experiment_id: data.id }, header: { "idempotency-key": keyOf(body) } },
            body,
          }),
        )
      }
    >
      <div data-testid="continue-effect" className={layout["stack"]}>
        <p className={layout["text"]}>{t("continue.text")}</p>
        {before ? (
          <NumberInput
            label={t(`continue.${before.unit}`)}
            description={t(`continue.now`, { value: before.value })}
            placeholder={String(before.value)}
            value={length}
            onChange={setLength}
            error={length !== "" && !isLonger ? t("continue.tooShort", { value: before.value }) : undefined}
            allowDecimal={false}
            w={220}
            data-autofocus
          />
        ) : (
          <p className={`dim ${layout["text"]}`}>{t("continue.ownLength")}</p>
        )}
        <TextInput
          label={t("continue.override")}
          description={t("continue.overrideHint")}
          placeholder="resources.slots=4"
          value={override}
          onChange={(e) => setOverride(e.currentTarget.value)}
        />
        {!isLonger && refused ? (
          <Notice tone="warn" title={refused} />
        ) : (
          <QueryView query={known}>{() => <Lines items={lines} />}</QueryView>
        )}
      </div>
    </ConfirmAction>
  );
}
