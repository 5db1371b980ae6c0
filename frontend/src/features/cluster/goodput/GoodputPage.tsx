import { Button, SegmentedControl } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { goodput, type Goodput, type GoodputFilter } from "../../../api/queries";
import { DAYS, GOODPUT_BY, type GoodputSearch } from "../../../app/search";
import barCss from "../../../common/goodput/goodput.module.css";
import { GoodputBar, GoodputLegend } from "../../../common/goodput/GoodputBar";
import { lostShare, piecesOf, slotTime } from "../../../common/goodput/pieces";
import { Empty, PageHead, Section, Stats } from "../../../components/basics";
import { amount } from "../../../components/BudgetBars";
import { QueryView } from "../../../components/QueryView";
import { FilterBar, SetFilter } from "../../../components/tables/FilterBar";
import { Reason } from "../../../components/text/Message";
import { Ago } from "../../../components/Time";
import { url } from "../../../lib/address";
import * as format from "../../../lib/format";
import { GroupTable, LossTable, TrialTable } from "./GoodputTables";
import { TrendFigure } from "./TrendFigure";

const USUAL_DAYS = 7;

/** Where the slot time of the cluster went, and what would have saved some. */
export function GoodputPage() {
  const { t } = useTranslation();
  const { days = USUAL_DAYS, by = "project", ...only } = useSearch({ from: "/app/goodput" });
  const navigate = useNavigate({ from: "/goodput" });
  const query = useQuery(goodput(days, by, only));
  const set = (change: GoodputSearch): void =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const filters = GOODPUT_BY.filter((one) => only[one] !== undefined);
  return (
    <>
      <PageHead
        guide="guides/goodput#the-cluster"
        title={t("nav.goodput")}
        actions={
          <Button
            component="a"
            href={url(`/api/v1/goodput/export?days=${days}`)}
            download
            variant="default"
            leftSection={<IconDownload size={14} aria-hidden />}
            title={t("goodput.csvHint", { count: days })}
            data-testid="goodput-csv"
          >
            {t("goodput.csv")}
          </Button>
        }
      />
      <FilterBar numActive={filters.length}>
        <SegmentedControl
          aria-label={t("goodput.period")}
          value={String(days)}
          onChange={(value) => set({ days: Number(value) })}
          data={DAYS.map((count) => ({ value: String(count), label: t("goodput.days", { count }) }))}
        />
        <SegmentedControl
          aria-label={t("goodput.groups")}
          value={by}
          onChange={(value) => set({ by: value })}
          data={GOODPUT_BY.map((value) => ({ value, label: t(`goodput.by.${value}`) }))}
        />
        {filters.map((one) => (
          <SetFilter
            key={one}
            text={`${t(`goodput.by.${one}`)}: ${only[one]}`}
            onRemove={() => set({ [one]: undefined })}
            testId={`goodput-only-${one}`}
          />
        ))}
      </FilterBar>
      <QueryView query={query}>
        {(data) =>
          data.allocated_s > 0 ? <Account data={data} by={by} set={set} /> : <Nothing only={only} set={set} />
        }
      </QueryView>
    </>
  );
}

type Set = (change: GoodputSearch) => void;

function Nothing({ only, set }: { only: GoodputFilter; set: Set }) {
  const { t } = useTranslation();
  const isFiltered = Object.values(only).some(Boolean);
  return (
    <Empty
      title={t("goodput.empty")}
      action={
        isFiltered ? (
          <Button variant="default" onClick={() => set({ project: undefined, pool: undefined, user: undefined })}>
            {t("common.clearFilters")}
          </Button>
        ) : null
      }
    >
      {isFiltered ? null : t("goodput.emptyHint")}
    </Empty>
  );
}

function Account({ data, by, set }: { data: Goodput; by: NonNullable<GoodputSearch["by"]>; set: Set }) {
  const { t } = useTranslation();
  const pieces = piecesOf(data.classes);
  return (
    <>
      {data.headline ? (
        <p className={barCss["headline"]} data-testid="goodput-headline">
          <Reason text={data.headline} parts={data.headline_parts} />
        </p>
      ) : null}
      <Numbers data={data} />
      <Section
        title={t("goodput.whole")}
        note={
          data.counted_until ? (
            <span data-testid="goodput-counted">
              {t("goodput.counted")} <Ago at={data.counted_until} />
            </span>
          ) : null
        }
      >
        <GoodputBar pieces={pieces} label={t("goodput.whole")} />
        <GoodputLegend pieces={pieces} />
      </Section>
      {data.losses.length > 0 ? (
        <Section title={t("goodput.losses")}>
          <LossTable data={data} />
        </Section>
      ) : null}
      {data.days > 1 ? (
        <Section title={t("goodput.trend")} note={t("goodput.trendNote")}>
          <TrendFigure data={data} />
        </Section>
      ) : null}
      <Section
        title={t(`goodput.by.${by}`)}
        note={
          data.num_groups > data.groups.length
            ? t("common.shownOf", { n: format.count(data.groups.length), all: format.count(data.num_groups) })
            : t("goodput.groupsNote")
        }
      >
        <GroupTable data={data} by={by} onOnly={(name) => set({ [by]: name })} />
      </Section>
      {data.trials.length > 0 ? (
        <Section title={t("goodput.trials")}>
          <TrialTable data={data} />
        </Section>
      ) : null}
    </>
  );
}

function Numbers({ data }: { data: Goodput }) {
  const { t } = useTranslation();
  const lost = lostShare(data.classes);
  const productive = data.classes["productive"] ?? 0;
  return (
    <Stats
      items={[
        {
          testId: "goodput-held",
          label: t("goodput.held"),
          value: slotTime(t, data.allocated_s),
          note: data.cost > 0 ? `${amount(data.cost)} ${data.currency}` : t("goodput.days", { count: data.days }),
        },
        {
          testId: "goodput-productive",
          label: t("goodput.kind.productive"),
          value: format.pct(productive / data.allocated_s),
          note: slotTime(t, productive),
        },
        {
          testId: "goodput-lost",
          label: t("goodput.lost"),
          value: format.pct(lost),
          note: slotTime(t, lost * data.allocated_s),
        },
      ]}
    />
  );
}
