import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "@mantine/core";
import { useTranslation } from "react-i18next";

import { url } from "../../lib/address";
import { Section } from "../../components/basics";
import { column, DataTable, lead } from "../../components/tables/DataTable";
import { QueryView } from "../../components/QueryView";
import layout from "../../components/layout.module.css";

/** The license of Muster, and those of the packages that the dashboard contains. */
export function Licenses() {
  const { t } = useTranslation();
  const [isOpen, setOpen] = useState(false);
  const query = useQuery({
    queryKey: ["licenses"],
    queryFn: async () => (await import("virtual:licenses")).packages,
    enabled: isOpen,
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Section title={t("licenses.title")} testId="licenses">
      <p className={`dim ${layout["text"]} ${layout["belowL"]}`}>{t("licenses.lead")}</p>
      <div className={`${layout["buttons"]} ${layout["belowL"]}`}>
        <Button variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} data-testid="show-licenses">
          {t(isOpen ? "licenses.hide" : "licenses.show")}
        </Button>
        <Button component="a" href={url("/licenses.txt")} target="_blank" rel="noreferrer" variant="subtle">
          {t("licenses.texts")}
        </Button>
      </div>
      {isOpen ? (
        <QueryView query={query}>
          {(packages) => (
            <DataTable<(typeof packages)[number]>
              rows={packages}
              rowKey={({ name, version }) => `${name}@${version}`}
              label={t("licenses.title")}
              columns={[
                lead("name", t("licenses.package"), ({ name }) => <span className="mono">{name}</span>),
                column("version", t("licenses.version"), ({ version }) => <span className="mono">{version}</span>),
                column("license", t("licenses.license"), ({ license }) => license),
              ]}
            />
          )}
        </QueryView>
      ) : null}
    </Section>
  );
}
