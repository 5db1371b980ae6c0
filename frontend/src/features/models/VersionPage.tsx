import { ActionIcon, Badge, Button } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useLiveQueries } from "../../api/liveHooks";
import { model as modelQuery, modelVersion, type ModelVersion } from "../../api/queries";
import { Code, Notice, PageHead, Section, Stats } from "../../components/basics";
import { QueryView } from "../../components/QueryView";
import { Tabs } from "../../components/Tabs";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import layout from "../../components/layout.module.css";
import { FileTable, MetricTable, SignatureTable } from "./VersionTables";
import { Exports } from "./Exports";
import { Lineage } from "./Lineage";
import { AliasDialog, DeleteVersion, RemoveAlias } from "./VersionDialogs";
import { Notes } from "./Notes";
import { Uses } from "./Uses";

/** A version: where it comes from, what it consists of, and what it is called. */
export function VersionPage() {
  const { name, number } = useParams({ from: "/app/models/$name/versions/$number" });
  const query = useQuery(modelVersion(name, Number(number)));
  useLiveQueries(`model:${name}`, ["model", name]);
  return (
    <QueryView query={query} isPage>
      {(version) => <Found version={version} />}
    </QueryView>
  );
}

function Found({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const mayMove = useQuery(modelQuery(version.model)).data?.may_change ?? false;
  const [open, setOpen] = useState<"alias" | "delete" | null>(null);
  const { tab = "overview" } = useSearch({ from: "/app/models/$name/versions/$number" });
  const tabs = (["overview", "uses"] as const).map((id) => ({ id, label: t(`models.versionTab.${id}`) }));
  const [removing, setRemoving] = useState<string | null>(null);
  const reference = `${version.model}:${version.number}`;
  return (
    <>
      <PageHead
        title={t("models.versionTitle", { name: version.model, version: version.number })}
        guide="guides/models"
        badge={<AliasBadges version={version} onRemove={mayMove ? setRemoving : undefined} />}
        actions={
          <>
            {mayMove && version.state === "ready" ? (
              <Button size="xs" onClick={() => setOpen("alias")} data-testid="set-alias">
                {t("models.setAlias")}
              </Button>
            ) : null}
            {version.may_change ? (
              <Button variant="default" size="xs" onClick={() => setOpen("delete")} data-testid="version-delete">
                {t("models.delete")}
              </Button>
            ) : null}
          </>
        }
      />
      <State version={version} />
      <Stats
        compact
        items={[
          { label: t("models.state"), value: t(`models.states.${version.state}`), testId: "version-state" },
          { label: t("models.size"), value: version.num_files > 0 ? format.bytes(version.size_bytes) : format.MISSING },
          { label: t("models.files"), value: format.count(version.num_files) },
          { label: t("models.registered"), value: <Ago at={version.created_at} /> },
          { label: t("models.by"), value: version.created_by },
        ]}
      />
      {version.state === "ready" ? (
        <div className={`${layout["aboveXl"]} ${layout["belowXl"]}`}>
          <p className={`dim ${layout["belowXs"]}`}>{t("models.pull")}</p>
          <Code text={`muster model pull ${reference} ${version.model}-${version.number}`} />
        </div>
      ) : null}
      <Tabs tabs={tabs} active={tab} label={t("models.versionSections")} />
      {tab === "uses" ? <Uses version={version} /> : <Overview version={version} />}
      {open === "alias" ? <AliasDialog version={version} onClose={() => setOpen(null)} /> : null}
      {open === "delete" ? <DeleteVersion version={version} onClose={() => setOpen(null)} /> : null}
      {removing === null ? null : <RemoveAlias version={version} alias={removing} onClose={() => setRemoving(null)} />}
    </>
  );
}

function Overview({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  return (
    <>
      <Section title={t("models.lineage")} note={t("models.lineageHint")} testId="lineage">
        <Lineage version={version} />
      </Section>
      <Section title={t("models.metrics")}>
        <MetricTable version={version} />
      </Section>
      <Notes version={version} />
      {version.signature ? (
        <Section title={t("models.signature")}>
          <SignatureTable signature={version.signature} />
        </Section>
      ) : null}
      {version.files.length > 0 ? (
        <Section title={t("models.files")}>
          <FileTable version={version} />
        </Section>
      ) : null}
      {version.state === "ready" ? <Exports version={version} /> : null}
    </>
  );
}

/** What is in the way of using it, or should be known before. */
function State({ version }: { version: ModelVersion }) {
  const { t } = useTranslation();
  const unsafe = version.files.filter((file) => file.warning !== "").map((file) => file.path);
  return (
    <>
      {version.state === "making" ? <Notice>{version.message || t("models.making")}</Notice> : null}
      {version.state === "failed" ? (
        <Notice tone="bad" title={t("models.failed")}>
          <span lang="en">{version.message}</span>
        </Notice>
      ) : null}
      {unsafe.length > 0 ? (
        <Notice tone="warn" title={t("models.unsafeTitle")}>
          {t("models.unsafeHint", { files: unsafe.slice(0, 5).join(", ") })}
        </Notice>
      ) : null}
    </>
  );
}

function AliasBadges({ version, onRemove }: { version: ModelVersion; onRemove?: (alias: string) => void }) {
  const { t } = useTranslation();
  return version.aliases.map((alias) => (
    <Badge
      key={alias}
      variant="light"
      tt="none"
      data-testid={`alias-${alias}`}
      rightSection={
        onRemove ? (
          <ActionIcon
            size={16}
            radius="xl"
            variant="transparent"
            aria-label={t("models.removeAlias", { alias })}
            title={t("models.removeAlias", { alias })}
            onClick={() => onRemove(alias)}
          >
            <IconX size={12} aria-hidden />
          </ActionIcon>
        ) : undefined
      }
    >
      {alias}
    </Badge>
  ));
}
