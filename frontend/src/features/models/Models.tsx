import { Badge, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { type ModelItem, modelList } from "../../api/queries";
import { Code, Empty, PageHead } from "../../components/basics";
import { type Column, column, lead, numeric } from "../../components/tables/DataTable";
import { FilterBar } from "../../components/tables/FilterBar";
import { PagedList } from "../../components/tables/PagedTable";
import { Tabs } from "../../components/Tabs";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";
import { Leaderboards } from "./Leaderboards";

const TYPING_MS = 250;

/** All models of the server. */
export function Models() {
  const { t } = useTranslation();
  const { tab = "models" } = useSearch({ from: "/app/models" });
  const tabs = (["models", "leaderboards"] as const).map((id) => ({ id, label: t(`models.listTab.${id}`) }));
  useLiveQueries("models", ["models"]);
  return (
    <>
      <PageHead guide="guides/models" title={t("nav.models")} sub={t("models.hint")} />
      <Tabs tabs={tabs} active={tab} label={t("models.listSections")} />
      {tab === "leaderboards" ? <Leaderboards /> : <List />}
    </>
  );
}

function List() {
  const { t } = useTranslation();
  const search = useSearch({ from: "/app/models" });
  const navigate = useNavigate({ from: "/models" });
  const [typed, setTyped] = useState(search.q ?? "");
  const [text] = useDebouncedValue(typed.trim(), TYPING_MS);
  useEffect(() => {
    void navigate({ search: (before) => ({ ...before, q: text === "" ? undefined : text }), replace: true });
  }, [text, navigate]);
  const query = useInfiniteQuery(modelList(text));
  const columns = useColumns();
  return (
    <>
      <FilterBar
        numActive={0}
        find={
          <TextInput
            size="xs"
            aria-label={t("models.search")}
            placeholder={t("models.search")}
            leftSection={<IconSearch size={14} aria-hidden />}
            value={typed}
            maxLength={200}
            onChange={(event) => setTyped(event.currentTarget.value)}
            data-filter
            data-testid="models-search"
          />
        }
      >
        {null}
      </FilterBar>
      <PagedList
        query={query}
        empty={text ? <Empty title={t("models.noMatch")} /> : <None />}
        rowKey={(each) => each.id}
        label={t("nav.models")}
        testId="models"
        columns={columns}
      />
    </>
  );
}

function None() {
  const { t } = useTranslation();
  return (
    <Empty title={t("models.none")} action={<Code text="muster model register digits --checkpoint 1" />}>
      {t("models.noneHint")}
    </Empty>
  );
}

function useColumns(): Column<ModelItem>[] {
  const { t } = useTranslation();
  return [
    lead("name", t("models.name"), (each) => (
      <Link to="/models/$name" params={{ name: each.name }} title={each.description || undefined}>
        {each.name}
      </Link>
    )),
    column("aliases", t("models.aliases"), (each) =>
      each.aliases.length === 0 ? (
        <span className="dim">{t("models.noAliases")}</span>
      ) : (
        <span className={`${layout["inline"]} ${layout["tight"]}`}>
          {each.aliases.map((alias) => (
            <Badge key={alias.name} size="sm" variant="light" tt="none">
              {t("models.moved", { alias: alias.name, version: alias.version })}
            </Badge>
          ))}
        </span>
      ),
    ),
    numeric("latest", t("models.latest"), (each) =>
      each.latest_version === null ? format.MISSING : each.latest_version,
    ),
    numeric("versions", t("models.versions"), (each) => format.count(each.num_versions), { phone: false }),
    column("project", t("models.project"), (each) => each.project),
    column("owner", t("models.owner"), (each) => each.owner ?? format.MISSING, { phone: false }),
    numeric("changed", t("models.changed"), (each) => <Ago at={each.updated_at} />),
  ];
}
