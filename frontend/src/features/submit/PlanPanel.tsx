import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import type { Preview } from "../../api/queries";
import { Meter, Notice, Section, Skeleton } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import { Reason } from "../../components/text/Message";
import * as format from "../../lib/format";
import { MemoryParts, StrategyTable, stepText, TrafficTable } from "./PlanTables";
import css from "./submit.module.css";
import layout from "../../components/layout.module.css";

type Plan = Schemas["PlanOut"];
type Config = Preview["config"];

const STALE_MS = 30_000;
/** While a node lists the layers of the model. */
const PENDING_MS = 1000;

/** A change to the document that the plan recommends. */
interface Change {
  section: string;
  key: string;
  value: string | number;
}

interface Props {
  document: string;
  overrides: string[];
  config: Config;
  /** The text has changed since; what is shown is about an older one. */
  behind: boolean;
  onDocument: (text: string) => void;
}

/** What the training of a valid document takes: memory, bytes and time, and what would take less. */
export function PlanPanel({ document, overrides, config, behind, onDocument }: Props) {
  const { t } = useTranslation();
  const query = useQuery({
    queryKey: ["plan", document, overrides],
    queryFn: ({ signal }) => unwrap(client.POST("/api/v1/plans", { body: { document, overrides }, signal })),
    enabled: !behind, // only of a text that is known to be valid
    placeholderData: (before) => before,
    staleTime: STALE_MS,
    refetchInterval: (asked) => (asked.state.data?.is_pending ? PENDING_MS : false),
  });
  const plan = query.data;
  const old = behind || query.isPlaceholderData;
  return (
    <Section
      guide="guides/planning"
      title={t("planner.title")}
      note={plan?.known ? t("planner.note", { count: plan.slots, params: format.si(plan.num_params, "", 3) }) : null}
      testId="planner"
    >
      <div className={css["takes"]} aria-busy={old || query.isPending}>
        {query.error && (!plan || query.isPlaceholderData) ? (
          <ErrorNotice error={query.error} onRetry={query.refetch} />
        ) : plan ? (
          <Shown
            plan={plan}
            config={config}
            document={document}
            overrides={overrides}
            old={old}
            onDocument={onDocument}
          />
        ) : (
          <Skeleton rows={4} />
        )}
      </div>
    </Section>
  );
}

function Shown({ plan, old, ...rest }: { plan: Plan; old: boolean } & Omit<Props, "behind">) {
  const { t } = useTranslation();
  const chosen = plan.strategies.find((one) => one.is_chosen);
  if (plan.is_pending)
    return (
      <div aria-busy="true" data-testid="planner-pending">
        <Notice title={t("planner.pending")}>
          <Reason text={plan.reason} parts={plan.reason_parts} />
        </Notice>
      </div>
    );
  if (!plan.known || !chosen)
    return (
      <div data-testid="planner-unknown">
        <Notice tone="warn" title={t("planner.unknown")}>
          <Reason text={plan.reason} parts={plan.reason_parts} />
        </Notice>
      </div>
    );
  const slot = plan.slot_memory_bytes;
  return (
    <>
      <Fits plan={plan} chosen={chosen} />
      {chosen.memory ? (
        <>
          <h3>{t("planner.memory")}</h3>
          <MemoryParts memory={chosen.memory} />
          {slot === null ? null : (
            <Meter
              value={chosen.memory.total / slot}
              tone={chosen.fits === false ? "bad" : "ok"}
              label={t("planner.share")}
              text={`${t("planner.share")}: ${format.pct(chosen.memory.total / slot)}`}
            />
          )}
          <h3>{t("planner.traffic")}</h3>
          {chosen.traffic.length > 0 ? (
            <TrafficTable traffic={chosen.traffic} />
          ) : (
            <p className={layout["text"]}>{t("planner.nothingSent")}</p>
          )}
          <h3>{t("planner.step")}</h3>
          <p className={layout["text"]} data-testid="planner-step">
            {chosen.step_ms ? stepText(t, chosen.step_ms) : t("planner.stepUnknown")}{" "}
            <span className="dim">{plan.time_source}</span>
          </p>
        </>
      ) : null}
      <h3>{t("planner.strategies")}</h3>
      <StrategyTable strategies={plan.strategies} />
      <Advice plan={plan} chosen={chosen} old={old} {...rest} />
    </>
  );
}

function Fits({ plan, chosen }: { plan: Plan; chosen: Plan["strategies"][number] }) {
  const { t } = useTranslation();
  if (!chosen.memory)
    return (
      <Notice tone="bad" title={t("planner.cannot")}>
        {chosen.problem}
      </Notice>
    );
  const sizes = { total: format.bytes(chosen.memory.total), slot: format.bytes(plan.slot_memory_bytes) };
  const title =
    chosen.fits === null
      ? t("planner.noSlot", sizes)
      : chosen.fits
        ? t("planner.fits", sizes)
        : t("planner.tooLarge", sizes);
  return (
    <div data-testid="planner-fits" data-fits={String(chosen.fits)}>
      <Notice tone={chosen.fits === null ? "run" : chosen.fits ? "ok" : "bad"} title={title}>
        {t("planner.slotSource", { source: plan.slot_memory_source })}
      </Notice>
    </div>
  );
}

/** The batch of a trial and where it stands; null: there is no one batch to change. */
function batchOf(config: Config): { section: string; value: unknown } | null {
  const trainer = config?.["trainer"] as Record<string, unknown> | null | undefined;
  const hparams = (config?.["hyperparameters"] ?? {}) as Record<string, unknown>;
  if (!trainer) return null;
  if (!("batch_size" in hparams)) return { section: "trainer", value: trainer["batch_size"] };
  return typeof hparams["batch_size"] === "number"
    ? { section: "hyperparameters", value: hparams["batch_size"] }
    : null;
}

function Advice({
  plan,
  chosen,
  document,
  overrides,
  config,
  old,
  onDocument,
}: { plan: Plan; chosen: Plan["strategies"][number]; old: boolean } & Omit<Props, "behind">) {
  const { t } = useTranslation();
  const [failed, setFailed] = useState<Change | null>(null);
  const batch = batchOf(config);
  const size = plan.recommended_batch_size;
  const wanted: (Change & { label: string })[] = [];
  if (plan.recommended !== null && plan.recommended !== chosen.kind)
    wanted.push({
      section: "strategy",
      key: "kind",
      value: plan.recommended,
      label: t("planner.useKind", { kind: plan.recommended }),
    });
  if (size !== null && batch && batch.value !== size)
    wanted.push({
      section: batch.section,
      key: "batch_size",
      value: size,
      label: t("planner.useBatch", { batch: size }),
    });
  const decided = ({ section, key }: Change): boolean =>
    overrides.some((text) => text.startsWith(`${section}.${key}=`) || text.startsWith(`${section}=`));
  const apply = async ({ section, key, value }: Change): Promise<void> => {
    const { FOR_ALL_STRATEGIES, withSetting } = await import("./editor");
    const text = withSetting(document, section, key, value, section === "strategy" ? FOR_ALL_STRATEGIES : undefined);
    setFailed(text === null ? { section, key, value } : null);
    if (text !== null) onDocument(text);
  };
  return (
    <div className={layout["aboveXl"]} data-testid="planner-advice">
      <Notice
        tone={plan.recommended === null ? "warn" : "ok"}
        title={
          plan.recommended === null
            ? t("planner.noneRecommended")
            : t("planner.recommended", { kind: plan.recommended })
        }
      >
        {plan.recommendation} {size === null ? null : t("planner.batch", { batch: size })}
        {wanted.length > 0 ? (
          <div className={`${layout["buttons"]} ${layout["aboveM"]}`}>
            {wanted.map((change) => (
              <Button
                key={change.key}
                size="xs"
                variant="default"
                disabled={old || decided(change)}
                onClick={() => void apply(change)}
                data-testid={`planner-use-${change.key}`}
              >
                {change.label}
              </Button>
            ))}
          </div>
        ) : null}
        {wanted.some(decided) ? <div>{t("planner.overridden")}</div> : null}
        {failed ? (
          <div role="alert">
            {t("planner.notApplied", { path: `${failed.section}.${failed.key}`, value: String(failed.value) })}
          </div>
        ) : null}
      </Notice>
    </div>
  );
}
