import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { type ExperimentDetail, me } from "../../api/queries";
import { scalingReports } from "../../api/scaling";
import { Section } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import { mayChange } from "../../lib/access";
import { StartDialog } from "./StartDialog";
import layout from "../../components/layout.module.css";

/** The scaling reports of an experiment, and the way to one more. */
export function ScalingSection({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const all = useQuery(scalingReports(data.id));
  const [asked, setAsked] = useState(false);
  const may = mayChange(user, data.owner) && all.data !== undefined && !all.data.some((one) => one.state === "running");
  const begin = may ? (
    <Button variant="subtle" size="compact-xs" onClick={() => setAsked(true)} data-testid="scaling-start">
      {t("scaling.start")}
    </Button>
  ) : null;
  return (
    <Section guide="guides/scaling" title={t("scaling.section")} note={begin} testId="scaling-section">
      <QueryView query={all}>
        {(list) =>
          list.length === 0 ? (
            <span className="dim">{t("scaling.none")}</span>
          ) : (
            <ul className={layout["bare"]}>
              {list.map((one) => (
                <li key={one.id}>
                  <Link
                    to="/experiments/$experimentId/scaling"
                    params={{ experimentId: String(data.id) }}
                    search={{ report: one.id }}
                  >
                    {t("scaling.item", {
                      id: one.id,
                      mode: t(`scaling.mode.${one.mode}`),
                      state: t(`scaling.state.${one.state}`),
                    })}
                  </Link>{" "}
                  <span className="dim">
                    {t("scaling.runs", { count: one.num_runs, steps: one.num_steps })} · <Ago at={one.created_at} />
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </QueryView>
      {asked ? <StartDialog experiment={data} onClose={() => setAsked(false)} /> : null}
    </Section>
  );
}
