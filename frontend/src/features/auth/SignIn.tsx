import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter, useSearch } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import { ApiError, client, unwrap } from "../../api/client";
import type { SignInProblem } from "../../app/search";
import { authState, type Me, me } from "../../api/queries";
import { ErrorNotice } from "../../components/QueryView";
import { Code, Notice, Skeleton } from "../../components/basics";
import { useFromHash } from "../../components/useFromHash";
import css from "./auth.module.css";
import { Frame, tokenOf } from "./Frame";

/** Only addresses of this site: a link must not send somebody away after signing in. */
export function safeTarget(to: string | undefined): string {
  return to && to.startsWith("/") && !to.startsWith("//") && !to.startsWith("/\\") ? to : "/";
}

export function SignIn() {
  const { t } = useTranslation();
  const router = useRouter();
  const queryClient = useQueryClient();
  const { to, problem } = useSearch({ from: "/sign-in" });
  const state = useQuery(authState).data;
  const provider = state?.provider ?? null;
  const once = useFromHash("once");
  const tried = useRef<string | null>(null);
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");

  const done = async (user: Me): Promise<void> => {
    queryClient.clear();
    queryClient.setQueryData(me.queryKey, user);
    await router.navigate({ to: safeTarget(to), replace: true });
  };
  const login = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/auth/login", { body: { username, password, code: code === "" ? null : code } })),
    onSuccess: done,
  });
  const oneTime = useMutation({
    mutationFn: (token: string) => unwrap(client.POST("/api/v1/auth/one-time", { body: { token } })),
    onSuccess: done,
  });
  // Who has switched two-step sign-in on is asked for a code once the password was right.
  const lacksCode = login.error instanceof ApiError && login.error.code === "auth.code_needed";
  const [wantsCode, setWantsCode] = useState(false);
  if (lacksCode && !wantsCode) setWantsCode(true);
  useEffect(() => {
    if (once && tried.current !== once) {
      tried.current = once; // a token works once; effects may run twice
      oneTime.mutate(once);
    }
  }, [once, oneTime]);
  useEffect(() => {
    if (state?.setup_required) void router.navigate({ to: "/setup", replace: true });
  }, [state, router]);

  if (oneTime.isPending) {
    return (
      <Frame title={t("auth.signingIn")}>
        <Skeleton rows={2} />
      </Frame>
    );
  }
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    login.mutate();
  };
  return (
    <Frame
      title={t("auth.signIn")}
      // Before the server has said it, the command would be the one for another machine.
      foot={state ? <Rescue command={state.sign_in_command} onToken={(token) => oneTime.mutate(token)} /> : null}
    >
      {oneTime.error ? <ErrorNotice error={oneTime.error} title={t("auth.onceFailed")} /> : null}
      {problem && provider ? (
        <Notice tone="warn" title={t("auth.providerFailed")}>
          {t(`auth.problem.${problem as SignInProblem}`, { provider })}
        </Notice>
      ) : null}
      {provider ? (
        <Button
          component="a"
          href={url(`/api/v1/auth/oidc/start?${new URLSearchParams({ to: safeTarget(to) }).toString()}`)}
          size="sm"
          fullWidth
          className={css["provider"]}
          data-testid="provider"
        >
          {t("auth.withProvider", { provider })}
        </Button>
      ) : null}
      <form className={css["form"]} onSubmit={submit} data-testid="sign-in-form">
        <TextInput
          size="sm"
          label={t("auth.username")}
          autoComplete="username"
          required
          withAsterisk={false}
          value={username}
          onChange={(e) => setUsername(e.currentTarget.value)}
          autoFocus={provider === null}
          name="username"
          autoCapitalize="none"
          spellCheck={false}
        />
        <PasswordInput
          label={t("auth.password")}
          autoComplete="current-password"
          required
          withAsterisk={false}
          value={password}
          onChange={(e) => setPassword(e.currentTarget.value)}
          name="password"
          visibilityToggleButtonProps={{ "aria-label": t("auth.showPassword") }}
        />
        {wantsCode ? (
          <TextInput
            size="sm"
            label={t("auth.code")}
            description={t("auth.codeHint")}
            value={code}
            onChange={(e) => setCode(e.currentTarget.value)}
            name="code"
            autoComplete="one-time-code"
            inputMode="text"
            spellCheck={false}
            autoFocus
            required
            withAsterisk={false}
          />
        ) : null}
        {login.error && !lacksCode ? <ErrorNotice error={login.error} /> : null}
        <Button
          type="submit"
          size="sm"
          loading={login.isPending}
          variant={provider === null ? "filled" : "default"}
          fullWidth
        >
          {t(provider === null ? "auth.signIn" : "auth.withPassword")}
        </Button>
      </form>
    </Frame>
  );
}

/** For who forgot the password or never had one: how to get a token that signs in once, and where it goes. */
function Rescue({ command, onToken }: { command: string | null; onToken: (token: string) => void }) {
  const { t } = useTranslation();
  const [token, setToken] = useState("");
  return (
    <details data-testid="rescue">
      <summary>{t("auth.forgot")}</summary>
      <form
        className={`${css["form"]} ${css["rescue"]}`}
        onSubmit={(event) => {
          event.preventDefault();
          onToken(tokenOf(token));
        }}
      >
        <div className={css["command"]}>
          {command ? t("auth.forgotHere") : t("auth.forgotAsk")}
          <Code text={command ?? "muster-server sign-in-token --quiet"} wrap testId="sign-in-command" />
        </div>
        <PasswordInput
          label={t("auth.once")}
          description={t("auth.onceHint")}
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          required
          withAsterisk={false}
          name="once"
          autoComplete="off"
          visibilityToggleButtonProps={{ "aria-label": t("auth.showPassword") }}
        />
        <Button type="submit" size="sm" variant="default" disabled={tokenOf(token) === ""} fullWidth>
          {t("auth.useOnce")}
        </Button>
      </form>
    </details>
  );
}
