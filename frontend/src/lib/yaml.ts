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

/** 0-based line of a dotted path in block-style YAML, by indentation; null when it cannot be told. */
export function lineOfPath(document: string, path: string): number | null {
  const keys = path.split(".").filter((key) => key && !/^\d+$/.test(key));
  const lines = document.split("\n");
  let from = 0;
  let indent = -1;
  let found: number | null = null;
  for (const key of keys) {
    let hit: number | null = null;
    for (let i = from; i < lines.length; i += 1) {
      const line = lines[i] ?? "";
      if (!line.trim() || line.trim().startsWith("#")) continue;
      const depth = line.length - line.trimStart().length;
      if (depth <= indent && i > from) break;
      const match = /^\s*(?:- )?["']?([^"':]+)["']?\s*:/.exec(line);
      if (match?.[1]?.trim() === key && depth > indent) {
        hit = i;
        indent = depth;
        break;
      }
      // {inline: maps} stay on the parent's line
      if (found === i && new RegExp(`[{,]\\s*${key.replace(/[^\w-]/g, "\\$&")}\\s*:`).test(line)) {
        hit = i;
        break;
      }
    }
    if (hit === null) return found;
    found = hit;
    from = hit;
  }
  return found;
}
