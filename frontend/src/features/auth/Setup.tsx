import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { type FormEvent, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

import { ApiError, client, unwrap } from "../../api/client";
import { authState, me } from "../../api/queries";
import { Code, Notice } from "../../components/basics";
import { isReady, NewPassword, NO_PASSWORD } from "../../components/NewPassword";
import { ErrorNotice } from "../../components/QueryView";
import { fieldText } from "../../components/text/Message";
import { useFromHash } from "../../components/useFromHash";
import css from "./auth.module.css";
import { Frame, tokenOf } from "./Frame";

export function Setup() {
  const { t } = useTranslation();
  const router = useRouter();
  const queryClient = useQueryClient();
  const state = useQuery(authState).data;
  const fromLink = useFromHash("token");
  const [token, setToken] = useState(fromLink ?? "");
  useEffect(() => {
    if (fromLink !== null) setToken(fromLink);
  }, [fromLink]);
  const [username, setUsername] = useState("admin");
  const [chosen, setChosen] = useState(NO_PASSWORD);
  const setup = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/auth/setup", { body: { token: tokenOf(token), username, password: chosen.password } }),
      ),
    onSuccess: async (user) => {
      queryClient.clear();
      queryClient.setQueryData(me.queryKey, user);
      await router.navigate({ to: "/", replace: true });
    },
  });
  const fields = setup.error instanceof ApiError ? setup.error.fields : [];
  const fieldError = (path: string): string | undefined => {
    const found = fields.find((f) => f.path.endsWith(path));
    return found ? fieldText(found) : undefined;
  };
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isReady(chosen)) setup.mutate();
  };
  if (state && !state.setup_required) {
    return (
      <Frame title={t("setup.title")}>
        <Notice tone="ok" title={t("setup.done")} />
        <Button size="sm" fullWidth onClick={() => void router.navigate({ to: "/sign-in" })}>
          {t("auth.signIn")}
        </Button>
      </Frame>
    );
  }
  return (
    <Frame title={t("setup.title")} lead={t("setup.lead")}>
      <form className={css["form"]} onSubmit={submit} data-testid="setup-form">
        {fromLink ? null : (
          <>
            <PasswordInput
              label={t("setup.token")}
              description={t("setup.tokenHint")}
              value={token}
              onChange={(e) => setToken(e.currentTarget.value)}
              required
              withAsterisk={false}
              name="token"
              autoComplete="off"
              error={fieldError("token")}
              visibilityToggleButtonProps={{ "aria-label": t("auth.showPassword") }}
            />
            {state?.setup_command ? (
              <div className={css["command"]}>
                {t("setup.command")}
                <Code text={state.setup_command} wrap testId="setup-command" />
              </div>
            ) : null}
          </>
        )}
        <TextInput
          size="sm"
          label={t("auth.username")}
          value={username}
          onChange={(e) => setUsername(e.currentTarget.value)}
          required
          withAsterisk={false}
          name="username"
          autoComplete="username"
          error={fieldError("username")}
          autoCapitalize="none"
          spellCheck={false}
        />
        <NewPassword label={t("auth.password")} value={chosen} error={fieldError("password")} onChange={setChosen} />
        {setup.error ? <ErrorNotice error={setup.error} /> : null}
        <Button type="submit" size="sm" loading={setup.isPending} disabled={!token || !isReady(chosen)} fullWidth>
          {t("setup.create")}
        </Button>
        <p className="dim">{t("setup.kept")}</p>
      </form>
    </Frame>
  );
}
