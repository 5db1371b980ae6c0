import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { examples } from "virtual:demo";

import { DEMO_LABEL } from "./demo";

const ROOT = path.resolve(import.meta.dirname, "../../../..");

test("the demo is that of `muster up --demo`, with the code that its documents name", () => {
  const source = readFileSync(path.join(ROOT, "trainer/muster/cli/demo.py"), "utf8");
  const names = [...(/EXAMPLES = \(([^)]*)\)/.exec(source)?.[1] ?? "").matchAll(/"([\w-]+)"/g)].map(
    (match) => match[1],
  );
  expect(examples.map(({ document }) => /^name: (\S+)/m.exec(document)?.[1])).toEqual(names);
  expect(source).toContain(`LABEL = "${DEMO_LABEL}"`);
  const packed = examples.filter(({ code }) => code !== null);
  expect(packed).toHaveLength(1);
  for (const { code, sha256 } of packed) {
    const bytes = Buffer.from(code ?? "", "base64");
    expect(createHash("sha256").update(bytes).digest("hex")).toBe(sha256);
    const tar = gunzipSync(bytes);
    expect(tar.length % 512).toBe(0);
    expect(tar.toString("utf8")).toContain(readFileSync(path.join(ROOT, "examples/plain-torchrun/train.py"), "utf8"));
  }
});
