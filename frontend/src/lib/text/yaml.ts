/** Texts that a user copies from the submit page. */

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function asCli(document: string, url: string): string {
  const body = document.endsWith("\n") ? document : `${document}\n`;
  return [
    `export MUSTER_URL=${quote(url)}   # and MUSTER_TOKEN=<an API token>`,
    "cat > experiment.yaml <<'EOF'",
    `${body}EOF`,
    "muster submit experiment.yaml",
    "",
  ].join("\n");
}

export function asCurl(document: string, url: string): string {
  const body = JSON.stringify({ document });
  return [
    `curl -sS ${quote(`${url}/api/v1/experiments`)} \\`,
    `  -H "Authorization: Bearer $MUSTER_TOKEN" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  --data-binary ${quote(body)}`,
    "",
  ].join("\n");
}
