import { Button, Popover, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";

import { client, type Schemas, unwrap } from "../../api/client";
import type { LogSearch } from "../../app/search";
import { errorLine } from "../../components/text/Message";
import * as format from "../../lib/format";
import { streamsQuery } from "./logQuery";
import css from "./logs.module.css";

interface Ask {
  pattern: string;
  name: string;
}

/** What a pattern of `metrics.from_log` would find in the log of a trial. */
export function LogValues({ trialId, search }: { trialId: number; search: LogSearch }) {
  const { t } = useTranslation();
  const [ask, setAsk] = useState<Ask | null>(null);
  return (
    <Popover trapFocus withArrow shadow="md" position="bottom-end" width={460}>
      <Popover.Target>
        <Button variant="default" data-testid="log-values">
          {t("logs.values")}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Question onAsk={setAsk} />
        {ask ? <Answer trialId={trialId} search={search} ask={ask} /> : null}
      </Popover.Dropdown>
    </Popover>
  );
}

function Question({ onAsk }: { onAsk: (ask: Ask) => void }) {
  const { t } = useTranslation();
  const [pattern, setPattern] = useState("auto");
  const [name, setName] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (pattern !== "") onAsk({ pattern, name });
  };
  return (
    <form onSubmit={submit} className={css["goTo"]}>
      <TextInput
        label={t("logs.valuePattern")}
        description={t("logs.valuePatternHint")}
        placeholder="loss (?P<value>\S+)"
        maxLength={500}
        value={pattern}
        onChange={(e) => setPattern(e.currentTarget.value)}
        data-testid="log-values-pattern"
      />
      <TextInput
        label={t("logs.valueName")}
        description={t("logs.valueNameHint")}
        placeholder="train/loss"
        maxLength={200}
        value={name}
        onChange={(e) => setName(e.currentTarget.value)}
      />
      <Button size="compact-sm" type="submit" data-testid="log-values-find">
        {t("logs.findValues")}
      </Button>
    </form>
  );
}

function Answer({ trialId, search, ask }: { trialId: number; search: LogSearch; ask: Ask }) {
  const { t } = useTranslation();
  const { rank, node, stream, attempt } = streamsQuery(search);
  const query = { pattern: ask.pattern, name: ask.name, rank, node, stream, attempt };
  const found = useQuery({
    queryKey: ["trial", trialId, "log-values", query],
    retry: false,
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/trials/{trial_id}/logs/values", { params: { path: { trial_id: trialId }, query }, signal }),
      ),
  });
  if (found.error) return <p role="alert">{errorLine(found.error)}</p>;
  if (!found.data) return <p role="status">{t("logs.searching")}</p>;
  return <Found found={found.data} />;
}

function Found({ found }: { found: Schemas["LogValuesOut"] }) {
  const { t } = useTranslation();
  return (
    <div data-testid="log-values-found">
      <p role="status">
        {t("logs.valuesFound", { count: found.num_values, n: format.count(found.num_values) })}
        {found.names.length > 0 ? ` ${found.names.map((each) => `${each.name} (${each.num_values})`).join(", ")}` : ""}
      </p>
      {found.first.length > 0 ? (
        <ol className={css["values"]}>
          {found.first.map((each, no) => (
            <li key={no}>
              {each.name} = {each.value} · {t("logs.atStep", { step: each.step })}
              <code>{each.line}</code>
            </li>
          ))}
        </ol>
      ) : null}
      {found.num_refused > 0 ? (
        <p>
          {t("logs.valuesRefused", { count: found.num_refused, n: format.count(found.num_refused) })} {found.refused}
        </p>
      ) : null}
      {found.left_bytes > 0 ? <p>{t("logs.valuesLeft", { size: format.bytes(found.left_bytes) })}</p> : null}
    </div>
  );
}
