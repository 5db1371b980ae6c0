import { Checkbox, Textarea } from "@mantine/core";
import { useTranslation } from "react-i18next";

import type { Pool } from "../../api/queries";

/** What a pool requires of the containers of jobs, as it is edited. */
export interface ContainerRules {
  isRequired: boolean;
  /** Prefixes of allowed images, one a line. */
  allowed: string;
}

export function rulesOf(pool: Pool): ContainerRules {
  return { isRequired: pool.requires_containers, allowed: pool.allowed_images.join("\n") };
}

export function bodyOf(rules: ContainerRules) {
  return { requires_containers: rules.isRequired, allowed_images: rules.allowed.split(/\s+/).filter(Boolean) };
}

/** Whether the jobs of a pool must run in containers, and of which images, in a table. */
export function PoolContainersCell({ pool }: { pool: Pool }) {
  const { t } = useTranslation();
  return (
    <span title={pool.allowed_images.join("\n")}>
      {t(pool.requires_containers ? "pools.containersRequired" : "pools.containersOptional")}
      {pool.allowed_images.length > 0 ? (
        <span className="dim"> · {t("pools.imagesFrom", { count: pool.allowed_images.length })}</span>
      ) : null}
    </span>
  );
}

export function PoolContainersFields(props: { rules: ContainerRules; onChange: (rules: ContainerRules) => void }) {
  const { t } = useTranslation();
  const { rules, onChange } = props;
  return (
    <>
      <Checkbox
        label={t("pools.requireContainers")}
        description={t("pools.requireContainersHint")}
        checked={rules.isRequired}
        onChange={(event) => onChange({ ...rules, isRequired: event.currentTarget.checked })}
      />
      <Textarea
        label={t("pools.allowedImages")}
        description={t("pools.allowedImagesHint")}
        placeholder="ghcr.io/acme"
        autosize
        minRows={1}
        maxRows={6}
        value={rules.allowed}
        onChange={(event) => onChange({ ...rules, allowed: event.currentTarget.value })}
      />
    </>
  );
}
