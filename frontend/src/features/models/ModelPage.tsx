import { Badge, Button, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../api/client";
import { useLiveQueries } from "../../api/liveHooks";
import { model as modelQuery, type ModelItem } from "../../api/queries";
import { PageHead, Stats } from "../../components/basics";
import { ConfirmAction } from "../../components/dialogs/ConfirmAction";
import { FormDialog } from "../../components/dialogs/FormDialog";
import { QueryView } from "../../components/QueryView";
import { Tabs } from "../../components/Tabs";
import { Ago } from "../../components/Time";
import * as format from "../../lib/format";
import { AliasHistory } from "./AliasHistory";
import { Promotions } from "./Promotions";
import { Versions } from "./Versions";

const MAX_TEXT = 50_000;

/** A model: its aliases, versions, history and rules. */
export function ModelPage() {
  const { name } = useParams({ from: "/app/models/$name" });
  const query = useQuery(modelQuery(name));
  useLiveQueries(`model:${name}`, ["model", name]);
  return (
    <QueryView query={query} isPage>
      {(found) => <Found model={found} />}
    </QueryView>
  );
}

function Found({ model }: { model: ModelItem }) {
  const { t } = useTranslation();
  const { tab = "versions" } = useSearch({ from: "/app/models/$name" });
  const [open, setOpen] = useState<"describe" | "delete" | null>(null);
  const tabs = (["versions", "history", "promotions"] as const).map((id) => ({ id, label: t(`models.tab.${id}`) }));
  const close = () => setOpen(null);
  return (
    <>
      <PageHead
        title={model.name}
        guide="guides/models"
        sub={model.description || undefined}
        badge={<Aliases model={model} />}
        actions={
          model.may_change ? (
            <>
              <Button variant="default" size="xs" onClick={() => setOpen("describe")} data-testid="model-describe">
                {t("models.edit")}
              </Button>
              <Button
                variant="default"
                color="red"
                size="xs"
                onClick={() => setOpen("delete")}
                data-testid="model-delete"
              >
                {t("models.delete")}
              </Button>
            </>
          ) : null
        }
      />
      <Stats
        compact
        items={[
          { label: t("models.latest"), value: model.latest_version ?? format.MISSING },
          { label: t("models.versions"), value: format.count(model.num_versions) },
          { label: t("models.project"), value: model.project },
          { label: t("models.owner"), value: model.owner ?? format.MISSING },
          { label: t("models.changed"), value: <Ago at={model.updated_at} /> },
        ]}
      />
      <Tabs tabs={tabs} active={tab} label={t("models.sections")} />
      {tab === "versions" ? <Versions name={model.name} /> : null}
      {tab === "history" ? <AliasHistory name={model.name} /> : null}
      {tab === "promotions" ? <Promotions name={model.name} /> : null}
      {open === "describe" ? <Describe model={model} onClose={close} /> : null}
      {open === "delete" ? <Delete model={model} onClose={close} /> : null}
    </>
  );
}

function Aliases({ model }: { model: ModelItem }) {
  const { t } = useTranslation();
  return model.aliases.map((alias) => (
    <Badge
      key={alias.name}
      variant="light"
      tt="none"
      title={alias.reason || undefined}
      data-testid={`alias-${alias.name}`}
    >
      {t("models.moved", { alias: alias.name, version: alias.version })}
    </Badge>
  ));
}

function Describe({ model, onClose }: { model: ModelItem; onClose: () => void }) {
  const { t } = useTranslation();
  const queryClient = useQueryClient();
  const [text, setText] = useState(model.description);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/models/{name}", {
          params: { path: { name: model.name } },
          body: { description: text },
        }),
      ),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["model", model.name] });
      onClose();
    },
  });
  return (
    <FormDialog
      title={t("models.descriptionOf", { name: model.name })}
      pending={save.isPending}
      error={save.error}
      testId="model-description"
      onSubmit={() => save.mutate()}
      onClose={onClose}
    >
      <Textarea
        label={t("models.description")}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        autosize
        minRows={3}
        maxLength={MAX_TEXT}
        data-autofocus
      />
    </FormDialog>
  );
}

function Delete({ model, onClose }: { model: ModelItem; onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  return (
    <ConfirmAction
      title={t("models.deleteModel", { name: model.name })}
      action={t("models.deleteAction")}
      typed={model.name}
      run={() => unwrap(client.DELETE("/api/v1/models/{name}", { params: { path: { name: model.name } } }))}
      onDone={() => navigate({ to: "/models" })}
      changes={["models"]}
      onClose={onClose}
    >
      {t("models.deleteModelHint")}
    </ConfirmAction>
  );
}
