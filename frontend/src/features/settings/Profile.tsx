import { Button, Checkbox, PasswordInput, SegmentedControl, useMantineColorScheme } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { authState, me } from "../../api/queries";
import { KeyValues, Notice, Section } from "../../components/basics";
import { isReady, NewPassword, NO_PASSWORD } from "../../components/NewPassword";
import { ErrorNotice } from "../../components/QueryView";
import { LANGUAGES, type Language, setLanguage } from "../../i18n";
import { usePref } from "../../lib/prefs";
import { Sessions } from "./access/Sessions";
import layout from "../../components/layout.module.css";

export function Preferences() {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [zone, setZone] = usePref("timezone");
  const user = useQuery(me).data;
  const provider = useQuery(authState).data?.provider;
  const rows: [ReactNode, ReactNode][] = [
    [t("auth.username"), user?.username ?? ""],
    [t("settings.role"), user ? t(`role.${user.role}`) : ""],
    ...(provider
      ? [[t("settings.connected"), <Connection key="c" provider={provider} />] as [ReactNode, ReactNode]]
      : []),
    [
      t("language.label"),
      <SegmentedControl
        key="l"
        aria-label={t("language.label")}
        value={i18n.language}
        onChange={(value) => void setLanguage(value as Language)}
        data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
      />,
    ],
    [
      t("theme.label"),
      <SegmentedControl
        key="t"
        aria-label={t("theme.label")}
        value={colorScheme}
        onChange={(value) => setColorScheme(value as "light" | "dark" | "auto")}
        data={(["light", "dark", "auto"] as const).map((value) => ({ value, label: t(`theme.${value}`) }))}
      />,
    ],
    [
      t("settings.zone"),
      <SegmentedControl
        key="z"
        aria-label={t("settings.zone")}
        value={zone === "utc" ? "utc" : "local"}
        onChange={(value) => setZone(value === "utc" ? "utc" : null)}
        data={[
          { value: "local", label: t("settings.local", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone }) },
          { value: "utc", label: "UTC" },
        ]}
      />,
    ],
  ];
  return (
    <>
      <Section>
        <KeyValues items={rows} />
      </Section>
      <Sessions />
    </>
  );
}

/** The account at the OpenID provider, or the way to connect it. */
function Connection({ provider }: { provider: string }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const connect = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/auth/oidc/connect")),
    onSuccess: ({ url }) => window.location.assign(url),
  });
  if (user?.provider_account) return `${user.provider_account} (${provider})`;
  return (
    <>
      {t("settings.notConnected")}{" "}
      <Button size="compact-xs" variant="default" loading={connect.isPending} onClick={() => connect.mutate()}>
        {t("settings.connect")}
      </Button>
      {connect.error ? <ErrorNotice error={connect.error} /> : null}
    </>
  );
}

export function Password() {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const provider = useQuery(authState).data?.provider;
  const [current, setCurrent] = useState("");
  const [chosen, setChosen] = useState(NO_PASSWORD);
  const [revoke, setRevoke] = useState(true);
  const queryClient = useQueryClient();
  const change = useMutation({
    mutationFn: (revokeTokens: boolean) =>
      unwrap(
        client.POST("/api/v1/auth/password", {
          body: {
            current_password: user?.has_password ? current : undefined,
            new_password: chosen.password,
            revoke_tokens: revokeTokens,
          },
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["tokens"] });
      setCurrent("");
      setChosen(NO_PASSWORD);
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change.mutate(revoke);
  };
  if (user?.provider_account && !user.has_password)
    return <Notice title={t("settings.noPasswordHere", { provider: provider ?? "" })} />;
  const eye = { visibilityToggleButtonProps: { "aria-label": t("auth.showPassword") } };
  return (
    <form onSubmit={submit} className={`${layout["stack"]} ${layout["narrow"]}`} data-testid="password-form">
      {user && !user.has_password ? <Notice title={t("settings.noPassword")} /> : null}
      {change.isSuccess ? (
        <Notice tone="ok" title={t("settings.passwordChanged")}>
          {change.variables ? t("settings.tokensRevoked") : null}
        </Notice>
      ) : null}
      {user?.has_password ? (
        <PasswordInput
          {...eye}
          label={t("settings.currentPassword")}
          autoComplete="current-password"
          value={current}
          onChange={(e) => setCurrent(e.currentTarget.value)}
          required
          withAsterisk={false}
        />
      ) : null}
      <NewPassword label={t("settings.newPassword")} value={chosen} onChange={setChosen} />
      <Checkbox
        label={t("settings.revokeTokens")}
        description={t("settings.revokeTokensHint")}
        checked={revoke}
        onChange={(e) => setRevoke(e.currentTarget.checked)}
      />
      {change.error ? <ErrorNotice error={change.error} /> : null}
      <Button type="submit" loading={change.isPending} disabled={!isReady(chosen)} className={layout["start"]}>
        {t("settings.changePassword")}
      </Button>
    </form>
  );
}
