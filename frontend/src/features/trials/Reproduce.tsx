import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";

import type { Reproduction, TrialDetail } from "../../api/queries";
import { Code, CopyIcon, KeyValues, Section } from "../../components/basics";
import { LinkButton } from "../../components/LinkButton";
import * as format from "../../lib/format";
import css from "./trials.module.css";

const COMMIT_CHARS = 12;

/** What it takes to run a trial again: the commands, the code, and what its processes ran with. */
export function Reproduce({ trial, found }: { trial: TrialDetail; found: Reproduction }) {
  const { t } = useTranslation();
  const again = `muster fork ${trial.experiment_id}`;
  return (
    <Section
      title={t("reproduce.title")}
      note={
        trial.unmanaged === null ? (
          <LinkButton to="/submit" search={{ from: trial.experiment_id }} size="compact-xs" variant="default">
            {t("operation.fork")}
          </LinkButton>
        ) : null
      }
      testId="reproduce"
    >
      <KeyValues
        items={[
          ...(trial.unmanaged === null
            ? ([[t("reproduce.submit"), <Line key="submit" text={again} />]] as [string, ReactNode][])
            : []),
          ...(found.command.length > 0
            ? ([[t("reproduce.command"), <Line key="command" text={shellLine(found.command)} />]] as [
                string,
                ReactNode,
              ][])
            : []),
          [t("trial.seed"), String(trial.seed)],
          ...codeRows(t, found),
          ...environmentRows(t, found.environment),
        ]}
      />
      {found.code_version?.diff ? (
        <Folded title={t(found.code_version.is_diff_cut ? "reproduce.diffCut" : "reproduce.diff")}>
          {found.code_version.diff}
        </Folded>
      ) : null}
      {found.code_version && found.code_version.untracked.length > 0 ? (
        <Folded title={t("reproduce.untracked", { count: found.code_version.untracked.length })}>
          {found.code_version.untracked.join("\n")}
        </Folded>
      ) : null}
      {found.environment && Object.keys(found.environment.variables).length > 0 ? (
        <Folded title={t("reproduce.variables", { count: Object.keys(found.environment.variables).length })}>
          {Object.entries(found.environment.variables)
            .map(([name, value]) => `${name}=${value}`)
            .join("\n")}
        </Folded>
      ) : null}
      {found.environment && found.environment.packages.length > 0 ? (
        <Folded title={packagesTitle(t, found.environment)}>{found.environment.packages.join("\n")}</Folded>
      ) : null}
    </Section>
  );
}

function codeRows(t: TFunction, found: Reproduction): [string, ReactNode][] {
  const version = found.code_version;
  const rows: [string, ReactNode][] = [];
  if (version)
    rows.push([
      t("reproduce.commit"),
      <span key="commit" data-testid="commit">
        <span className="mono" title={version.commit}>
          {version.commit.slice(0, COMMIT_CHARS)}
        </span>{" "}
        <CopyIcon value={version.commit} /> {version.branch || t("reproduce.detached")}
        {version.is_dirty ? ` · ${t("reproduce.dirty")}` : ""}
      </span>,
    ]);
  if (found.code_sha256)
    rows.push([
      t("reproduce.code"),
      <span key="code">
        <span className="mono" title={found.code_sha256}>
          {found.code_sha256.slice(0, COMMIT_CHARS)}
        </span>{" "}
        {found.code_size_bytes === null ? "" : format.bytes(found.code_size_bytes)}
        {version ? "" : ` · ${t("reproduce.noGit")}`}
      </span>,
    ]);
  return rows;
}

function environmentRows(t: TFunction, environment: Reproduction["environment"]): [string, ReactNode][] {
  if (!environment) return [[t("reproduce.environment"), t("reproduce.unknown")]];
  const rows: [string, string][] = [
    [t("reproduce.image"), environment.image],
    [t("reproduce.imageDigest"), environment.image_digest || environment.image_id],
    ["Python", `${environment.python_version} · ${environment.python}`],
    ["PyTorch", environment.torch_version],
    ["CUDA", environment.cuda_version],
    [t("reproduce.driver"), environment.driver_version],
    ["Muster", environment.muster_version],
    ...Object.entries(environment.data ?? {}).map(([name, one]): [string, string] => [
      one.version ? t("reproduce.dataVersion", { name, version: one.version }) : t("reproduce.data", { name }),
      one.digest
        ? `${one.digest} · ${t("reproduce.files", { count: one.num_files })} · ${format.bytes(one.size_bytes)} · ${one.path}`
        : `${t("reproduce.noDigest")}: ${one.problem}`,
    ]),
    [t("reproduce.toldBy"), t("reproduce.attempt", { no: environment.attempt_no, node: environment.node_name })],
  ];
  return rows.filter(([, text]) => text !== "");
}

function packagesTitle(t: TFunction, { packages, num_packages }: NonNullable<Reproduction["environment"]>): string {
  return packages.length < num_packages
    ? t("reproduce.somePackages", { shown: format.count(packages.length), all: format.count(num_packages) })
    : t("reproduce.packages", { count: num_packages });
}

/** One line to copy. */
function Line({ text }: { text: string }) {
  return (
    <span className={css["commandLine"]}>
      <code className="mono">{text}</code>
      <CopyIcon value={text} />
    </span>
  );
}

function Folded({ title, children }: { title: string; children: string }) {
  return (
    <details className={css["folded"]}>
      <summary>{title}</summary>
      <Code text={children} />
    </details>
  );
}

/** The words of a command as a shell reads them. */
export function shellLine(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}
