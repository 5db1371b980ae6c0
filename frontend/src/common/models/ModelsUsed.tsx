import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";

import { experimentUses } from "../../api/queries";
import { KeyValues, Section } from "../../components/basics";

/** The versions of models that an experiment uses; nothing where there are none. */
export function ModelsUsed({ experimentId }: { experimentId: number }) {
  const { t } = useTranslation();
  const uses = useQuery(experimentUses(experimentId)).data?.items ?? [];
  if (uses.length === 0) return null;
  return (
    <Section guide="guides/models" title={t("models.used")} testId="models-used">
      <KeyValues
        items={uses.map((use) => [
          <Link
            key="version"
            to="/models/$name/versions/$number"
            params={{ name: use.model, number: String(use.version) }}
          >
            {use.model}:{use.version}
          </Link>,
          <span key="kind">{t(`models.kind.${use.kind}`)}</span>,
        ])}
      />
    </Section>
  );
}
