import { PasswordInput } from "@mantine/core";
import { useTranslation } from "react-i18next";

import { MIN_PASSWORD } from "../lib/access";

/** A password that is chosen, and what was typed the second time. */
export interface PasswordPair {
  password: string;
  again: string;
}

export const NO_PASSWORD: PasswordPair = { password: "", again: "" };

export const isReady = ({ password, again }: PasswordPair): boolean =>
  password.length >= MIN_PASSWORD && password === again;

/** Two fields in which a password is chosen. */
export function NewPassword({
  label,
  value,
  error,
  onChange,
}: {
  label: string;
  value: PasswordPair;
  /** What the server says of the password. */
  error?: string;
  onChange: (value: PasswordPair) => void;
}) {
  const { t } = useTranslation();
  const { password, again } = value;
  const shared = {
    required: true,
    withAsterisk: false,
    autoComplete: "new-password",
    visibilityToggleButtonProps: { "aria-label": t("auth.showPassword") },
  };
  const tooShort = password !== "" && password.length < MIN_PASSWORD;
  return (
    <>
      <PasswordInput
        {...shared}
        label={label}
        description={t("setup.passwordRule", { n: MIN_PASSWORD })}
        value={password}
        onChange={(e) => onChange({ password: e.currentTarget.value, again })}
        name="new-password"
        error={tooShort ? t("setup.tooShort", { n: MIN_PASSWORD }) : error}
      />
      <PasswordInput
        {...shared}
        label={t("setup.again")}
        value={again}
        onChange={(e) => onChange({ password, again: e.currentTarget.value })}
        name="again"
        error={again !== "" && again !== password ? t("setup.differs") : undefined}
      />
    </>
  );
}
