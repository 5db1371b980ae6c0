import { NumberInput, SegmentedControl, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { experiment, type ExperimentDetail } from "../../api/queries";
import { Code, Empty, Section } from "../../components/basics";
import { column, DataTable, lead } from "../../components/tables/DataTable";
import layout from "../../components/layout.module.css";
import { QueryView } from "../../components/QueryView";
import { word } from "../../i18n/words";
import * as format from "../../lib/format";
import { settingPairs, settingsOf } from "../../lib/settings";
import css from "./experiments.module.css";

const SHAPES = ["resolved", "submitted", "difference"] as const;
type Shape = (typeof SHAPES)[number];

/**
 * The configuration of an experiment: with every default, as it was submitted, or what differs from
 * another one. `origins`: where each value comes from, by path, as far as it is known.
 */
export function Settings({
  experiment: data,
  origins,
}: {
  experiment: ExperimentDetail;
  origins: Readonly<Record<string, string>>;
}) {
  const { t } = useTranslation();
  const [shape, setShape] = useState<Shape>("resolved");
  const [find, setFind] = useState("");
  const [other, setOther] = useState<number | null>(null);
  return (
    <Section title={t("config.title")} testId="settings">
      <div className={css["settingsBar"]}>
        <SegmentedControl
          aria-label={t("config.title")}
          value={shape}
          onChange={(value) => setShape(value as Shape)}
          data={SHAPES.map((value) => ({ value, label: t(`config.shape.${value}`) }))}
        />
        {shape === "resolved" ? (
          <TextInput
            aria-label={t("config.find")}
            placeholder={t("config.find")}
            leftSection={<IconSearch size={14} />}
            value={find}
            onChange={(event) => setFind(event.currentTarget.value)}
            data-filter
            data-testid="settings-find"
          />
        ) : null}
        {shape === "difference" ? (
          <NumberInput
            aria-label={t("config.other")}
            placeholder={t("config.other")}
            prefix="#"
            min={1}
            allowDecimal={false}
            allowNegative={false}
            hideControls
            value={other ?? ""}
            onChange={(value) => setOther(typeof value === "number" ? value : null)}
            data-testid="settings-other"
          />
        ) : null}
      </div>
      {shape === "submitted" ? <Submitted experiment={data} /> : null}
      {shape === "resolved" ? <Resolved config={data.config} origins={origins} find={find} /> : null}
      {shape === "difference" ? <Difference experiment={data} other={other} /> : null}
    </Section>
  );
}

/** The document, and the values that were changed beside it. */
function Submitted({ experiment: data }: { experiment: ExperimentDetail }) {
  const { t } = useTranslation();
  return (
    <>
      {data.document === "" ? <Empty title={t("config.noDocument")} /> : <Code text={data.document} />}
      {data.overrides.length > 0 ? (
        <>
          <h3 className={`${layout["text"]} ${layout["aboveXl"]} ${layout["belowXs"]}`}>{t("config.overrides")}</h3>
          <Code text={data.overrides.join("\n")} />
        </>
      ) : null}
    </>
  );
}

function Resolved({
  config,
  origins,
  find,
}: {
  config: unknown;
  origins: Readonly<Record<string, string>>;
  find: string;
}) {
  const { t } = useTranslation();
  const rows = settingsOf(config, origins, find);
  if (rows.length === 0) return <Empty title={t("config.noMatch", { text: find })} />;
  const look = (isDefault: boolean): string => `mono ${css["setting"]} ${isDefault ? "dim" : ""}`;
  return (
    <DataTable<(typeof rows)[number]>
      rows={rows}
      rowKey={(row) => row.path}
      label={t("config.title")}
      testId="settings-table"
      columns={[
        {
          id: "path",
          header: t("config.setting"),
          lead: true,
          width: 320,
          cell: (row) => <span className={look(row.isDefault)}>{row.path}</span>,
        },
        column("value", t("config.value"), (row) => <span className={look(row.isDefault)}>{row.text}</span>),
        column("origin", t("config.origin"), (row) => <Origin origin={origins[row.path]} />, { width: 140 }),
      ]}
    />
  );
}

function Origin({ origin }: { origin: string | undefined }) {
  const { t } = useTranslation();
  if (origin === undefined) return <span className="dim">{format.MISSING}</span>;
  return <span className={origin === "default" ? "dim" : undefined}>{word(t, "config.from", origin)}</span>;
}

/** What differs between this experiment and another one. */
function Difference({ experiment: data, other }: { experiment: ExperimentDetail; other: number | null }) {
  const { t } = useTranslation();
  const [id] = useDebouncedValue(other, 300);
  const query = useQuery({ ...experiment(id ?? 0), enabled: id !== null });
  if (id === null) return <Empty title={t("config.choose")}>{t("config.chooseHint")}</Empty>;
  return (
    <QueryView query={query}>
      {(found) => {
        const rows = settingPairs(data.config, found.config);
        if (rows.length === 0) return <Empty title={t("config.same", { name: found.name, id: found.id })} />;
        return (
          <DataTable<(typeof rows)[number]>
            rows={rows}
            rowKey={(row) => row.path}
            label={t("config.shape.difference")}
            testId="settings-difference"
            columns={[
              lead("path", t("config.setting"), (row) => <Value text={row.path} />),
              column("here", `#${data.id} ${data.name}`, (row) => <Value text={row.here} />),
              column("there", `#${found.id} ${found.name}`, (row) => <Value text={row.there} />),
            ]}
          />
        );
      }}
    </QueryView>
  );
}

const Value = ({ text }: { text: string }) => (
  <span className={`mono ${css["setting"]}`}>{text === "" ? format.MISSING : text}</span>
);
