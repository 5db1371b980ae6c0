import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { type Diagnosis, me } from "../../api/queries";
import { Code } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { gainOf, signed } from "./words";
import layout from "../../components/layout.module.css";

type Advice = Diagnosis["advice"][number];
const TEXTS = [
  "accumulate",
  "bucket",
  "prefetch",
  "faster_data",
  "avoid_node",
  "fix_rank",
  "less_sync",
  "compute",
] as const;

/** What to change, what that should bring, and what it has brought where it was launched. */
export function AdviceList({ diagnosis }: { diagnosis: Diagnosis }) {
  const { t } = useTranslation();
  if (diagnosis.advice.length === 0) return <p className="dim">{t("diagnosis.noAdvice")}</p>;
  return (
    <ul className={`${layout["bare"]} ${layout["entries"]}`} data-testid="advice">
      {diagnosis.advice.map((advice) => (
        <li key={advice.kind}>
          <One diagnosis={diagnosis} advice={advice} />
        </li>
      ))}
    </ul>
  );
}

function One({ diagnosis, advice }: { diagnosis: Diagnosis; advice: Advice }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const queryClient = useQueryClient();
  const launch = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/diagnoses/{diagnosis_id}:apply", {
          params: { path: { diagnosis_id: diagnosis.id } },
          body: { advice: advice.kind },
        }),
      ),
    onSuccess: () => queryClient.invalidateQueries({ queryKey: ["trial-diagnoses", diagnosis.trial_id] }),
  });
  const known = TEXTS.find((kind) => kind === advice.kind);
  const mayLaunch = advice.overrides.length > 0 && (user?.role === "member" || user?.role === "admin");
  return (
    <>
      <p className={layout["text"]}>
        {known ? t(`diagnosis.text.${known}`, advice.values) : advice.text}{" "}
        {advice.gain ? <b>{t(advice.is_bound ? "diagnosis.bound" : "diagnosis.gain", gainOf(advice.gain))}</b> : null}
      </p>
      {advice.overrides.length > 0 ? <Code text={advice.overrides.join("\n")} /> : null}
      {advice.applied.map((applied) => (
        <p key={applied.experiment_id} className={`${layout["text"]} ${layout["aboveXs"]}`} data-testid="achieved">
          {applied.state === "deleted" ? (
            `${t("diagnosis.launched", { id: applied.experiment_id })}: ${t("diagnosis.gone")}`
          ) : (
            <>
              <Link to="/experiments/$experimentId" params={{ experimentId: String(applied.experiment_id) }}>
                {t("diagnosis.launched", { id: applied.experiment_id })}
              </Link>
              :{" "}
              <b>
                {applied.achieved === null
                  ? t("diagnosis.notYet")
                  : t("diagnosis.achieved", { value: signed(applied.achieved), n: applied.num_steps })}
              </b>
            </>
          )}
        </p>
      ))}
      {mayLaunch ? (
        <Button
          size="xs"
          mt="xs"
          variant={advice.applied.length > 0 ? "default" : "filled"}
          loading={launch.isPending}
          onClick={() => launch.mutate()}
          data-testid={`launch-${advice.kind}`}
        >
          {t("diagnosis.launch")}
        </Button>
      ) : null}
      {launch.error ? <ErrorNotice error={launch.error} /> : null}
    </>
  );
}
