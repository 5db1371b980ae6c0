import { Button, Group, Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";

import { client, unwrap } from "../../../api/client";
import { type Node, nodes } from "../../../api/queries";
import { ErrorNotice } from "../../../components/QueryView";
import css from "../cluster.module.css";
import layout from "../../../components/layout.module.css";

const MAX_NODES = 64;

/** Asks which nodes are to try each other, begins with `chosen`, and leads to the result. */
export function PreflightButton({ chosen }: { chosen: readonly string[] }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const all = useQuery({ ...nodes, enabled: opened }).data;
  return (
    <>
      <Button variant="default" onClick={() => setOpened(true)} data-testid="preflight">
        {t("preflight.run")}
      </Button>
      {opened && all ? <Ask all={all} chosen={chosen} onClose={() => setOpened(false)} /> : null}
    </>
  );
}

function Ask({ all, chosen, onClose }: { all: Node[]; chosen: readonly string[]; onClose: () => void }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [names, setNames] = useState<readonly string[]>(chosen);
  // A node may have gone since it was chosen.
  const picked = all.filter((node) => names.includes(node.name));
  const begin = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/preflights", { body: { nodes: picked.map((node) => node.name) } })),
    onSuccess: async (made) => {
      await queryClient.invalidateQueries({ queryKey: ["preflights"] });
      await navigate({ to: "/preflights/$preflightId", params: { preflightId: String(made.id) } });
    },
  });
  const away = picked.filter((node) => node.state !== "ONLINE");
  const ready = picked.length > 0 && picked.length <= MAX_NODES && away.length === 0;
  return (
    <Modal
      opened
      onClose={onClose}
      title={t("preflight.ask")}
      centered
      closeButtonProps={{ "aria-label": t("common.close") }}
    >
      <p className={layout["aboveNone"]}>{t("preflight.askText")}</p>
      <fieldset className={css["choice"]}>
        <legend>{t("preflight.choose")}</legend>
        {all.map((node) => (
          <label key={node.id}>
            <input
              type="checkbox"
              checked={names.includes(node.name)}
              onChange={(event) =>
                setNames(
                  event.currentTarget.checked ? [...names, node.name] : names.filter((name) => name !== node.name),
                )
              }
            />
            <span>{node.name}</span>
          </label>
        ))}
      </fieldset>
      {away.map((node) => (
        <p key={node.id} role="status" className={`${layout["text"]} ${layout["aboveM"]} ${layout["warn"]}`}>
          {t("preflight.notOnline", { name: node.name })}
        </p>
      ))}
      {picked.length > MAX_NODES ? (
        <p className={`${layout["text"]} ${layout["aboveM"]} ${layout["warn"]}`}>
          {t("preflight.tooMany", { max: MAX_NODES })}
        </p>
      ) : null}
      {begin.error ? <ErrorNotice error={begin.error} /> : null}
      <Group justify="flex-end" mt="md">
        <Button variant="default" onClick={onClose}>
          {t("common.cancel")}
        </Button>
        <Button
          disabled={!ready}
          loading={begin.isPending}
          onClick={() => begin.mutate()}
          data-testid="preflight-begin"
        >
          {t("preflight.begin", { count: picked.length })}
        </Button>
      </Group>
    </Modal>
  );
}
