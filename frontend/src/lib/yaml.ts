/** Texts that a user copies from the submit page. */

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function asCli(document: string, url: string): string {
  const body = document.endsWith("\n") ? document : `${document}\n`;
  return `export MUSTER_URL=${quote(url)}   # and MUSTER_TOKEN=<an API token>\ncat > experiment.yaml <<'EOF'\n${body}EOF\nmuster submit experiment.yaml\n`;
}

export function asCurl(document: string, url: string): string {
  const body = JSON.stringify({ document });
  return `curl -sS ${quote(`${url}/api/v1/experiments`)} \\\n  -H "Authorization: Bearer $MUSTER_TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  --data-binary ${quote(body)}\n`;
}
