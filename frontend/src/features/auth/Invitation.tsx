import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { me } from "../../api/queries";
import { Notice } from "../../components/basics";
import { isReady, NewPassword, NO_PASSWORD } from "../../components/NewPassword";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { useFromHash } from "../../components/useFromHash";
import css from "./auth.module.css";
import { Frame } from "./Frame";

/** The page that an invitation links to: whoever opens it chooses the password of their account. */
export function Invitation() {
  const { t } = useTranslation();
  const token = useFromHash("invitation");
  return (
    <Frame title={t("invitation.title")}>
      {token ? (
        <Accept key={token} token={token} />
      ) : (
        <Notice tone="warn" title={t("invitation.noLink")}>
          {t("invitation.noLinkHint")}
        </Notice>
      )}
    </Frame>
  );
}

function Accept({ token }: { token: string }) {
  const { t } = useTranslation();
  const router = useRouter();
  const queryClient = useQueryClient();
  const [chosen, setChosen] = useState(NO_PASSWORD);
  // Asked once: the link stops working when it is used, and every question counts as an attempt.
  const query = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => unwrap(client.POST("/api/v1/auth/invitation:check", { body: { token } })),
    staleTime: Infinity,
    retry: false,
  });
  const accept = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/auth/invitation", { body: { token, password: chosen.password } })),
    onSuccess: async (user) => {
      queryClient.clear();
      queryClient.setQueryData(me.queryKey, user);
      await router.navigate({ to: "/", replace: true });
    },
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (isReady(chosen)) accept.mutate();
  };
  return (
    <QueryView query={query}>
      {({ username }) => (
        <form className={css["form"]} onSubmit={submit} data-testid="invitation-form">
          {/* For password managers, which keep the name beside the password. */}
          <TextInput
            size="sm"
            label={t("auth.username")}
            value={username}
            readOnly
            name="username"
            autoComplete="username"
          />
          <NewPassword label={t("auth.password")} value={chosen} onChange={setChosen} />
          {accept.error ? <ErrorNotice error={accept.error} /> : null}
          <Button type="submit" size="sm" loading={accept.isPending} disabled={!isReady(chosen)} fullWidth>
            {t("invitation.accept")}
          </Button>
        </form>
      )}
    </QueryView>
  );
}
