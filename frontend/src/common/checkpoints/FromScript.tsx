import { Badge, Tooltip } from "@mantine/core";
import { useTranslation } from "react-i18next";

/** Marks a checkpoint that the script saved under a name of its own; nothing for any other. */
export function FromScript({ checkpoint }: { checkpoint: { kind: string; path: string } }) {
  const { t } = useTranslation();
  if (checkpoint.kind !== "adopted") return null;
  return (
    <Tooltip label={t("checkpoints.fromScriptHint", { path: checkpoint.path })} multiline maw={360}>
      <Badge size="xs" variant="default" data-testid="from-script">
        {t("checkpoints.fromScript")}
      </Badge>
    </Tooltip>
  );
}
