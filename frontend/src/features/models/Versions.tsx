import { Badge } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { modelVersions, type ModelVersionItem as Item } from "../../api/queries";
import { Empty } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { PagedList } from "../../components/tables/PagedTable";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";
import { useSource } from "./source";

const SHOWN_METRICS = 2;

/** The versions of a model, newest first. */
export function Versions({ name }: { name: string }) {
  const { t } = useTranslation();
  const query = useInfiniteQuery(modelVersions(name));
  const columns = useColumns();
  return (
    <PagedList
      query={query}
      empty={<Empty title={t("models.noVersions")}>{t("models.noVersionsHint")}</Empty>}
      rowKey={(version) => version.number}
      label={t("models.versions")}
      testId="model-versions"
      columns={columns}
    />
  );
}

function useColumns(): Column<Item>[] {
  const { t } = useTranslation();
  const source = useSource();
  return [
    lead("version", t("models.version"), (version) => (
      <span className={`${layout["inline"]} ${layout["tight"]}`}>
        <Link
          to="/models/$name/versions/$number"
          params={{ name: version.model, number: String(version.number) }}
          className={layout["nowrap"]}
        >
          {t("models.versionNo", { version: version.number })}
        </Link>
        {version.aliases.map((alias) => (
          <Badge key={alias} size="xs" variant="light" tt="none">
            {alias}
          </Badge>
        ))}
        {version.state === "ready" ? null : (
          <Badge size="xs" variant="light" color={version.state === "failed" ? "red" : "gray"} tt="none">
            {t(`models.states.${version.state}`)}
          </Badge>
        )}
      </span>
    )),
    column("from", t("models.from"), (version) => source(version)),
    column("metrics", t("models.metrics"), (version) => <Metrics version={version} />),
    {
      id: "unsafe",
      header: t("models.unsafe"),
      quiet: true,
      cell: (version) =>
        version.is_unsafe ? (
          <Badge size="xs" variant="light" color="yellow" tt="none" title={t("models.unsafeTitle")}>
            {t("models.unsafe")}
          </Badge>
        ) : null,
    },
    numeric("size", t("models.size"), (version) =>
      version.state === "ready" ? format.bytes(version.size_bytes) : format.MISSING,
    ),
    column("by", t("models.by"), (version) => version.created_by, { phone: false }),
    numeric("at", t("models.registered"), (version) => <Ago at={version.created_at} />),
  ];
}

function Metrics({ version }: { version: Item }) {
  const { t } = useTranslation();
  const all = Object.entries(version.metrics);
  if (all.length === 0) return format.MISSING;
  const title = all.map(([name, value]) => `${name} ${format.metric(name, value)}`).join("\n");
  return (
    <span className="mono" title={title}>
      {all
        .slice(0, SHOWN_METRICS)
        .map(([name, value]) => `${name} ${format.metric(name, value)}`)
        .join(", ")}
      {all.length > SHOWN_METRICS ? (
        <span className="dim"> {t("models.more", { n: all.length - SHOWN_METRICS })}</span>
      ) : null}
    </span>
  );
}
