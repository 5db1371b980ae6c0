import { Button } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { useIsThere } from "../../api/parts";
import { RegisterDialog, type RegisterSource } from "./RegisterDialog";

/** Opens the dialog that makes a version of a checkpoint or of outputs. */
export function RegisterButton({ source, variant = "subtle" }: { source: RegisterSource; variant?: string }) {
  const { t } = useTranslation();
  const [isOpen, setIsOpen] = useState(false);
  const isThere = useIsThere();
  if (!isThere("models")) return null;
  return (
    <>
      <Button
        variant={variant}
        size={variant === "subtle" ? "compact-xs" : "xs"}
        onClick={() => setIsOpen(true)}
        data-testid="register"
      >
        {t("models.register")}
      </Button>
      {isOpen ? <RegisterDialog source={source} onClose={() => setIsOpen(false)} /> : null}
    </>
  );
}
