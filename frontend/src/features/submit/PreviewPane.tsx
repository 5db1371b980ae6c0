import type { TFunction } from "i18next";
import { useTranslation } from "react-i18next";

import type { FieldError } from "../../api/client";
import type { Preview } from "../../api/queries";
import { Code, KeyValues, Notice, Section } from "../../components/basics";
import { DataTable, numeric } from "../../components/tables/DataTable";
import { FieldMessage, Reason } from "../../components/text/Message";
import { Until } from "../../components/Time";
import * as format from "../../lib/format";
import { lengthText } from "../../lib/text/lengthText";
import css from "./submit.module.css";
import layout from "../../components/layout.module.css";

const show = (value: unknown): string =>
  typeof value === "number" ? format.num(value) : typeof value === "string" ? value : JSON.stringify(value);

/** "epochs" or "steps": what the lengths of an asha search are in. */
function rungUnit(config: Preview["config"]): string {
  const search = config?.["search"] as { max_length?: Record<string, unknown> | null } | undefined;
  return Object.entries(search?.max_length ?? {}).find(([, value]) => value !== null)?.[0] ?? "";
}

/** When the first trial would start, where it would not at once. */
function Start({ preview }: { preview: Preview }) {
  const { t } = useTranslation();
  if (preview.fits_now || preview.is_impossible) return null;
  return (
    <p className={`${layout["text"]} ${layout["aboveXs"]}`} data-testid="would-start">
      {preview.estimated_start_at ? (
        <>
          {t("submit.starts")} <Until at={preview.estimated_start_at} />
        </>
      ) : (
        t("submit.startUnknown")
      )}
      {preview.position === null ? null : ` · ${t("submit.position", { n: preview.position })}`}
    </p>
  );
}

/** How many trials reach which length. */
function RungPlan({ rungs, unit }: { rungs: Preview["rungs"]; unit: string }) {
  const { t } = useTranslation();
  const brackets = new Set(rungs.map((rung) => rung["bracket"])).size;
  return (
    <ul className={layout["bare"]} data-testid="rung-plan">
      {rungs.map((rung) => (
        <li key={`${show(rung["bracket"])}:${show(rung["units"])}`}>
          {brackets > 1
            ? `${t("search.bracketNo", {
                no: Number(rung["bracket"]) + 1,
                count: rungs.filter((other) => other["bracket"] === rung["bracket"]).length,
              })} · `
            : ""}
          {t("submit.rung", { count: Number(rung["max_trials"]), length: lengthText(t, Number(rung["units"]), unit) })}
        </li>
      ))}
    </ul>
  );
}

/** What a whole search is expected to take. */
function costRows(t: TFunction, cost: NonNullable<Preview["search_cost"]>): [string, React.ReactNode][] {
  const spared = 1 - cost.total_units / cost.full_units;
  const rows: [string, React.ReactNode][] = [
    [
      t("submit.training"),
      `${lengthText(t, cost.total_units, cost.unit)}${spared > 0 ? ` · ${t("submit.spared", { share: format.pct(spared) })}` : ""}`,
    ],
  ];
  if (cost.slot_hours === null) return [...rows, [t("submit.slotHours"), t("submit.noUnitTime")]];
  const from =
    cost.unit_s_from === "search.unit_s"
      ? t("submit.stated")
      : t("submit.measured", { where: cost.unit_s_from.replace(/^experiment /, "#") });
  rows.push([t("submit.slotHours"), `${format.num(cost.slot_hours)} (${from})`]);
  if (cost.cost !== null) rows.push([t("submit.cost"), `${format.num(cost.cost)} ${cost.currency}`]);
  if (cost.duration_s !== null) rows.push([t("submit.duration"), format.duration(cost.duration_s)]);
  if (cost.within_budget === false) rows.push([t("submit.budget"), t("submit.overBudget")]);
  return rows;
}

/** Errors or warnings of a document, each with the path it is about. */
function Remarks({
  remarks,
  testId,
  onPath,
}: {
  remarks: FieldError[];
  testId: string;
  onPath: (path: string) => void;
}) {
  const { t } = useTranslation();
  return (
    <ul className={css["errors"]} data-testid={testId}>
      {remarks.map((remark) => (
        <li key={`${remark.path}:${remark.message}`}>
          <button type="button" onClick={() => onPath(remark.path)}>
            {remark.path || t("submit.documentItself")}
          </button>
          <div>
            <FieldMessage error={remark} />
          </div>
        </li>
      ))}
    </ul>
  );
}

/** What the server says of a document: its mistakes, or what it would do and take. */
export function PreviewPane({
  preview,
  errors,
  takes,
  onError,
}: {
  preview: Preview;
  errors: FieldError[];
  takes: React.ReactNode;
  onError: (path: string) => void;
}) {
  const { t } = useTranslation();
  const names = [...new Set(preview.sampled_trials.flatMap((trial) => Object.keys(trial.hparams)))];
  return (
    <>
      {errors.length > 0 ? (
        <Section title={t("submit.errors", { count: errors.length })}>
          <Remarks remarks={errors} testId="errors" onPath={onError} />
        </Section>
      ) : null}
      {preview.valid ? (
        <>
          {preview.warnings.length > 0 ? (
            <Section title={t("submit.warnings", { count: preview.warnings.length })}>
              <Remarks remarks={preview.warnings} testId="warnings" onPath={onError} />
            </Section>
          ) : null}
          {(preview.notices ?? []).map((notice) => (
            <Notice key={notice.text}>
              <span data-testid="notice">
                <Reason text={notice.text} parts={notice.parts} />
              </span>
            </Notice>
          ))}
          <div data-testid="fits">
            <Notice
              tone={preview.fits_now ? "ok" : preview.is_impossible ? "warn" : "run"}
              title={t(preview.fits_now ? "submit.fits" : preview.is_impossible ? "submit.impossible" : "submit.waits")}
            >
              <Reason text={preview.fit_reason} parts={preview.fit_parts} />
              <Start preview={preview} />
            </Notice>
          </div>
          <Section title={t("submit.plan")}>
            <KeyValues
              items={[
                [
                  t("experiments.trials"),
                  preview.num_trials === null
                    ? format.MISSING
                    : t(preview.num_trials_is_upper_bound ? "submit.atMost" : "submit.exactly", {
                        count: preview.num_trials,
                      }),
                ],
                ...(preview.concurrent !== null && preview.num_trials !== 1
                  ? ([
                      [
                        t("submit.atOnce"),
                        preview.concurrent_from === "search.concurrent"
                          ? format.count(preview.concurrent)
                          : t("submit.byRoom", { count: preview.concurrent }),
                      ],
                    ] as [string, React.ReactNode][])
                  : []),
                ...(preview.rungs.length > 0
                  ? ([
                      [
                        t("search.rungs"),
                        <RungPlan key="rungs" rungs={preview.rungs} unit={rungUnit(preview.config)} />,
                      ],
                    ] as [string, React.ReactNode][])
                  : []),
                ...(preview.perturbed.length > 0
                  ? ([[t("submit.perturbed"), preview.perturbed.join(", ")]] as [string, React.ReactNode][])
                  : []),
                ...(preview.copied.length > 0
                  ? ([[t("submit.copied"), preview.copied.join(", ")]] as [string, React.ReactNode][])
                  : []),
                ...(preview.search_cost ? costRows(t, preview.search_cost) : []),
              ]}
            />
          </Section>
          {takes}
          {preview.plan.length > 0 ? (
            <Section title={t("submit.commands")}>
              {preview.plan.map((node) => (
                <div key={node.node_name} className={layout["belowL"]}>
                  <div className={`dim ${layout["belowXs"]}`}>
                    {t("submit.onNode", { node: node.node_name, count: node.num_slots })}
                  </div>
                  <Code text={node.command.join(" ")} wrap />
                </div>
              ))}
            </Section>
          ) : null}
          {names.length > 0 ? (
            <Section title={t("submit.sampled", { count: preview.sampled_trials.length })}>
              <DataTable<Preview["sampled_trials"][number] & { no: number }>
                rows={preview.sampled_trials.map((trial, i) => ({ ...trial, no: i + 1 }))}
                rowKey={(row) => row.no}
                label={t("experiments.trials")}
                cards={false}
                columns={[
                  numeric("no", "#", (row) => row.no),
                  ...names.map((name) =>
                    numeric(name, name, (row: { hparams: Record<string, unknown> }) => show(row.hparams[name])),
                  ),
                ]}
              />
            </Section>
          ) : null}
          {preview.config ? (
            <Section title={t("trial.resolved")} note={t("submit.defaults")}>
              <Code text={JSON.stringify(preview.config, null, 2)} />
            </Section>
          ) : null}
        </>
      ) : null}
    </>
  );
}
