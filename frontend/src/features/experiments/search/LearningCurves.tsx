import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { coalesce } from "../../../api/live";
import { live } from "../../../api/liveHooks";
import { type ExperimentDetail, type Search, searchResults, trialMetrics } from "../../../api/queries";
import { type Line, SeriesChart, type Source } from "../../../charts/series/SeriesChart";
import { Empty, Section } from "../../../components/basics";
import type { Growing, XKind } from "../../../lib/series/axis";
import { type Columns, toColumns } from "../../../lib/series/series";
import { lengthText } from "../../../lib/text/lengthText";
import { curvesOfRungs, epochsOf, standingOut, STANDING_OUT } from "./learning";
import type { Results } from "./searchData";
import layout from "../../../components/layout.module.css";

const MAX_TRIALS = 50;
/** Beyond the hues and dashes of the palette: grey. */
const PALE = 24;

const AXES: Record<string, XKind> = { epochs: "epoch", samples: "samples", seconds: "seconds" };
/** Units that lie along the step in a metric of their own. */
const LOGGED = ["samples", "seconds"];

/** Learning curves of the trials. Points stay outside of component state. */
class TrialCurves implements Source {
  private held: Line[] = [];
  private answered = false;
  private failed: Error | null = null;
  private results: Results | null = null;
  /** Place in the palette, kept while the page is open. */
  private readonly colors = new Map<string, number>();
  private readonly listeners = new Set<() => void>();
  /** How far each trial was at a step, as it was logged. */
  private progress: ReadonlyMap<number, Growing> = new Map();
  shown = 0;
  all = 0;
  /** Nothing was logged: values at rungs are all there is. */
  ofRungs = false;

  constructor(
    private readonly experimentId: number,
    private readonly metric: string,
    private readonly best: number | null,
    private readonly search: Search,
    private readonly isExternal: boolean,
    private readonly label: (no: number, isBest: boolean) => string,
  ) {}

  private ask = async (
    name: string,
  ): Promise<{ num: number; found: { trialId: number; trialNo: number; columns: Columns }[] }> => {
    const reply = await unwrap(
      client.GET("/api/v1/experiments/{experiment_id}/series", {
        params: {
          path: { experiment_id: this.experimentId },
          query: { name, max_points: 200, max_trials: MAX_TRIALS },
        },
      }),
    );
    return {
      num: reply.num_trials,
      found: reply.items.map((item) => ({
        trialId: item.trial_id,
        trialNo: item.trial_no,
        columns: toColumns(item.series),
      })),
    };
  };

  read = async (): Promise<void> => {
    try {
      const { unit } = this.search;
      const isLogged = unit !== null && (LOGGED.includes(unit) || (this.isExternal && unit !== "steps"));
      const [reply, along] = await Promise.all([this.ask(this.metric), isLogged ? this.ask(`progress/${unit}`) : null]);
      this.progress = new Map(
        (along?.found ?? []).map((one) => [one.trialId, { step: one.columns.step, value: one.columns.last }]),
      );
      let { found } = reply;
      this.all = reply.num;
      this.ofRungs = found.length === 0 && this.metric === this.search.metric_name;
      if (this.ofRungs) {
        const known = curvesOfRungs(this.search);
        this.all = known.length;
        found = known
          .toSorted((a, b) => b.columns.numPoints - a.columns.numPoints || a.trialNo - b.trialNo)
          .slice(0, MAX_TRIALS);
        this.ofRungs = found.length > 0;
      }
      this.shown = found.length;
      // The best comes first in the legend, which names only a few.
      this.held = found
        .toSorted((a, b) => Number(b.trialId === this.best) - Number(a.trialId === this.best))
        .map((one) => ({
          key: String(one.trialId),
          label: this.label(one.trialNo, one.trialId === this.best),
          columns: one.columns,
          color: PALE,
        }));
      this.failed = null;
    } catch (error) {
      this.failed = error instanceof Error ? error : new Error(String(error));
    }
    this.answered = true;
    this.tell();
  };

  /** What is known of the trials besides their points. */
  know = (results: Results | undefined): void => {
    this.results = results ?? null;
    this.tell();
  };

  private tell(): void {
    for (const listener of this.listeners) listener();
  }

  lines = (): Line[] => {
    const out = this.results ? standingOut(this.results) : null;
    const epochs = this.results && this.search.unit === "epochs" && !this.ofRungs ? epochsOf(this.results) : null;
    const isFaint = (line: Line): boolean => (out === null ? this.held.length > 6 : !out.has(Number(line.key)));
    const colorOf = (line: Line): number => {
      if (isFaint(line)) return PALE;
      if (!this.colors.has(line.key)) this.colors.set(line.key, this.colors.size % PALE);
      return this.colors.get(line.key) ?? PALE;
    };
    return this.held
      .map((line) => ({
        ...line,
        faint: isFaint(line),
        color: colorOf(line),
        along: this.alongOf(Number(line.key), epochs),
      }))
      .toSorted((a, b) => Number(a.faint) - Number(b.faint));
  };
  private alongOf(trialId: number, epochs: ReadonlyMap<number, NonNullable<Line["along"]>> | null): Line["along"] {
    if (this.ofRungs) return { growing: { step: [1], value: [1] } };
    const growing = this.progress.get(trialId);
    return growing ? { growing } : epochs?.get(trialId);
  }

  /** What lies along the chart: the search's unit, or steps where no trial says how far it is in that. */
  axis = (): XKind => {
    const kind = AXES[this.search.unit ?? ""] ?? "step";
    return kind === "epoch" || this.ofRungs || this.progress.size > 0 ? kind : "step";
  };
  /** Where rungs stand on the axis: nowhere when they are at samples or seconds and the axis is of steps. */
  rungs = (): number[] => {
    const isOnAxis = this.search.unit === "steps" || this.axis() !== "step";
    return isOnAxis ? [...new Set(this.search.rungs.map((rung) => rung.units))].toSorted((a, b) => a - b) : [];
  };
  ready = (): boolean => this.answered;
  error = (): Error | null => this.failed;
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

export function LearningCurves({ experiment, search }: { experiment: ExperimentDetail; search: Search }) {
  const { t } = useTranslation();
  const { metric: asked } = useSearch({ from: "/app/experiments/$experimentId" });
  const navigate = useNavigate({ from: "/experiments/$experimentId" });
  const metric = search.metric_name ?? "val/loss";
  const chosen = asked ?? metric;
  const sample = experiment.best_trial_id;
  const names = useQuery({ ...trialMetrics(sample ?? 0), enabled: sample !== null }).data?.names ?? [];
  const results = useQuery(searchResults(experiment.id)).data;
  const isExternal = (experiment.config["search"] as { runner?: string } | undefined)?.runner === "external";
  const curves = useMemo(
    () =>
      new TrialCurves(
        experiment.id,
        chosen,
        experiment.best_trial_id,
        search,
        isExternal,
        (no, isBest) => `${t("trial.no", { no })}${isBest ? " ★" : ""}`,
      ),
    [experiment.id, chosen, experiment.best_trial_id, search, isExternal, t],
  );
  const [note, setNote] = useState({
    shown: 0,
    all: 0,
    ofRungs: false,
    isEmpty: false,
    axis: (search.unit === "epochs" ? "epoch" : "step") as XKind,
  });
  useEffect(() => {
    void curves.read();
    const end = curves.subscribe(() => {
      const now = {
        shown: curves.shown,
        all: curves.all,
        ofRungs: curves.ofRungs,
        isEmpty: curves.ready() && curves.shown === 0 && curves.error() === null,
        axis: curves.axis(),
      };
      setNote((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
    });
    const endLive = live.subscribe(`experiment:${experiment.id}`, coalesce(curves.read, 1000));
    return () => {
      end();
      endLive();
    };
  }, [curves, experiment.id]);
  useEffect(() => curves.know(results), [curves, results]);
  const rungs = curves.rungs();
  const key = [
    t("curves.faint", { count: STANDING_OUT }),
    rungs.length > 0 && search.unit
      ? t("curves.rungs", { units: rungs.map((units) => lengthText(t, units, search.unit ?? "")).join(", ") })
      : "",
    note.ofRungs ? t("curves.ofRungs") : "",
  ];
  return (
    <Section
      title={t("search.curves")}
      note={note.all > note.shown ? t("search.someCurves", note) : t("search.allCurves", { count: note.shown })}
    >
      <Select
        aria-label={t("experiment.metric")}
        w={220}
        mb="xs"
        searchable
        allowDeselect={false}
        value={chosen}
        data={[...new Set([chosen, metric, ...names])]}
        onChange={(value) =>
          void navigate({
            search: (before) => ({ ...before, metric: value === metric ? undefined : (value ?? undefined) }),
            replace: true,
          })
        }
      />
      {note.isEmpty ? (
        <Empty title={t("curves.none")}>{t("curves.noneHint")}</Empty>
      ) : (
        <>
          <SeriesChart id="learning-curves" title={chosen} metric={chosen} source={curves} height={280} x={note.axis} />
          <p className={`dim ${layout["text"]} ${layout["aboveXs"]} ${layout["small"]}`} data-testid="curves-key">
            {key.filter((part) => part !== "").join(" ")}
          </p>
        </>
      )}
    </Section>
  );
}
