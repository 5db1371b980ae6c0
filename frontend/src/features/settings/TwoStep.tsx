import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { renderSVG } from "uqr";

import { client, unwrap } from "../../api/client";
import { me } from "../../api/queries";
import { Code, Notice, Section } from "../../components/basics";
import { ErrorNotice } from "../../components/QueryView";
import layout from "../../components/layout.module.css";
import css from "./settings.module.css";

/** Codes of an authenticator app beside the password: setting up, recovery codes, switching off. */
export function TwoStep() {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const user = useQuery(me).data;
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const refresh = (): Promise<void> => queryClient.invalidateQueries({ queryKey: me.queryKey });
  const begin = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/auth/second-factor", { body: { password } })),
    onSuccess: () => setPassword(""),
  });
  const confirm = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/auth/second-factor:confirm", { body: { code } })),
    onSuccess: () => {
      begin.reset();
      setCode("");
      return refresh();
    },
  });
  const off = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/auth/second-factor:switch-off", { body: { password } })),
    onSuccess: () => {
      setPassword("");
      confirm.reset();
      return refresh();
    },
  });
  if (!user?.has_password) return null;
  const isOn = user.has_second_factor;
  const act = isOn ? off : begin;
  const submit =
    (action: () => void) =>
    (event: FormEvent): void => {
      event.preventDefault();
      action();
    };
  return (
    <Section title={t("twoStep.title")} testId="two-step">
      <div className={`${layout["stack"]} ${layout["narrow"]}`}>
        {confirm.data ? (
          <Notice tone="ok" title={t("twoStep.done")}>
            {t("twoStep.recovery")}
            <Code text={confirm.data.codes.join("\n")} testId="recovery-codes" />
          </Notice>
        ) : (
          <p>{t(isOn ? "twoStep.on" : "twoStep.off")}</p>
        )}
        {begin.data ? (
          <form className={layout["stack"]} onSubmit={submit(() => confirm.mutate())}>
            <p>{t("twoStep.scan")}</p>
            <img
              className={css["qr"]}
              alt={t("twoStep.qr")}
              src={`data:image/svg+xml,${encodeURIComponent(renderSVG(begin.data.address, { border: 3 }))}`}
            />
            <div>
              {t("twoStep.secret")}
              <Code text={begin.data.secret} wrap testId="second-factor-secret" />
            </div>
            <TextInput
              label={t("twoStep.code")}
              value={code}
              onChange={(e) => setCode(e.currentTarget.value.trim())}
              autoComplete="one-time-code"
              inputMode="numeric"
              required
              withAsterisk={false}
            />
            {confirm.error ? <ErrorNotice error={confirm.error} /> : null}
            <Button type="submit" className={layout["start"]} loading={confirm.isPending} disabled={code.length !== 6}>
              {t("twoStep.confirm")}
            </Button>
          </form>
        ) : (
          <form className={layout["stack"]} onSubmit={submit(() => act.mutate())}>
            <PasswordInput
              label={t("twoStep.password")}
              autoComplete="current-password"
              value={password}
              onChange={(e) => setPassword(e.currentTarget.value)}
              required
              withAsterisk={false}
              visibilityToggleButtonProps={{ "aria-label": t("auth.showPassword") }}
            />
            {act.error ? <ErrorNotice error={act.error} /> : null}
            <Button
              type="submit"
              variant={isOn ? "default" : "filled"}
              className={layout["start"]}
              loading={act.isPending}
              disabled={password === ""}
            >
              {t(isOn ? "twoStep.switchOff" : "twoStep.begin")}
            </Button>
          </form>
        )}
      </div>
    </Section>
  );
}
