import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { me } from "../../api/queries";
import { KeyValues, Notice, PageHead, Section } from "../../components/basics";
import { ErrorNotice, QueryView } from "../../components/QueryView";
import { Ago } from "../../components/Time";
import layout from "../../components/layout.module.css";

/** The page that `muster login` sends people to: which command line waits, and whether it may act as them. */
export function Device() {
  const { t } = useTranslation();
  const { code } = useSearch({ from: "/app/device" });
  return (
    <>
      <PageHead title={t("auth.device")} />
      <Section>{code ? <Answer key={code} code={code} /> : <CodeForm />}</Section>
    </>
  );
}

function CodeForm() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [code, setCode] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void navigate({ to: "/device", search: { code: code.trim().toUpperCase() } });
  };
  return (
    <form onSubmit={submit} className={`${layout["stack"]} ${layout["narrow"]}`}>
      <TextInput
        label={t("device.code")}
        description={t("device.codeHint")}
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
        placeholder="BCDF-GHJK"
        autoComplete="off"
        spellCheck={false}
        autoFocus
        required
        withAsterisk={false}
      />
      <Button type="submit" className={layout["start"]} disabled={code.trim().length < 8}>
        {t("device.go")}
      </Button>
    </form>
  );
}

function Answer({ code }: { code: string }) {
  const { t } = useTranslation();
  const user = useQuery(me).data;
  const login = useQuery({
    queryKey: ["device", code],
    queryFn: () => unwrap(client.GET("/api/v1/auth/device/{code}", { params: { path: { code } } })),
    staleTime: Infinity,
    retry: false,
  });
  const answer = useMutation({
    mutationFn: (approves: boolean) => {
      const params = { params: { path: { code } } };
      return unwrap(
        approves
          ? client.POST("/api/v1/auth/device/{code}:approve", params)
          : client.POST("/api/v1/auth/device/{code}:deny", params),
      );
    },
  });
  if (answer.isSuccess) {
    return answer.variables ? (
      <Notice tone="ok" title={t("device.approved")}>
        {t("device.approvedHint")}
      </Notice>
    ) : (
      <Notice title={t("device.denied")} />
    );
  }
  return (
    <QueryView query={login}>
      {(found) => (
        <div className={`${layout["stack"]} ${layout["narrow"]}`}>
          <p>{t("device.asks", { user: user?.username ?? "" })}</p>
          <KeyValues
            items={[
              [
                t("device.code"),
                <b key="c" className="mono">
                  {found.user_code}
                </b>,
              ],
              [t("device.client"), found.client],
              [
                t("device.address"),
                <span key="a" className="mono">
                  {found.remote_addr}
                </span>,
              ],
              [t("device.asked"), <Ago key="t" at={found.created_at} />],
            ]}
          />
          <Notice tone="warn" title={t("device.beware")} />
          {answer.error ? <ErrorNotice error={answer.error} /> : null}
          <span className={layout["buttons"]}>
            <Button onClick={() => answer.mutate(true)} loading={answer.isPending}>
              {t("device.approve")}
            </Button>
            <Button variant="default" onClick={() => answer.mutate(false)} disabled={answer.isPending}>
              {t("device.deny")}
            </Button>
          </span>
        </div>
      )}
    </QueryView>
  );
}
