import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { experimentVersions } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";
import { Ago } from "../../components/Time";
import { VersionLink } from "./VersionLink";

/** The versions of models that were made from an experiment; nothing where there are none. */
export function ModelsMade({ experimentId }: { experimentId: number }) {
  const { t } = useTranslation();
  const versions = useQuery(experimentVersions(experimentId)).data?.items ?? [];
  if (versions.length === 0) return null;
  return (
    <Section guide="guides/models" title={t("models.usedBy")} testId="models-made">
      <KeyValues
        items={versions.map((version) => [
          <VersionLink key="version" model={version.model} version={version.number} />,
          <Ago key="made" at={version.created_at} />,
        ])}
      />
    </Section>
  );
}
