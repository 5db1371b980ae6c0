import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";

import { experimentUses } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";
import { VersionLink } from "./VersionLink";

/** The versions of models that an experiment uses; nothing where there are none. */
export function ModelsUsed({ experimentId }: { experimentId: number }) {
  const { t } = useTranslation();
  const uses = useQuery(experimentUses(experimentId)).data?.items ?? [];
  if (uses.length === 0) return null;
  return (
    <Section guide="guides/models" title={t("models.used")} testId="models-used">
      <KeyValues
        items={uses.map((use) => [
          <VersionLink key="version" model={use.model} version={use.version} />,
          <span key="kind">{t(`models.kind.${use.kind}`)}</span>,
        ])}
      />
    </Section>
  );
}
