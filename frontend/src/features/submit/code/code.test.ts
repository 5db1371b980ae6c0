// @vitest-environment node
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, test } from "vitest";

import { unpack, withoutTop } from "./archives";
import type { CodeFile } from "./files";
import { chosenFiles } from "./ignore";
import { Sha256 } from "./sha256";
import { pack } from "./tar";

const file = (name: string, text = name): CodeFile => ({ name, data: new Blob([text]) });
const texts = async (files: readonly CodeFile[]) =>
  Promise.all(files.map(async ({ name, data }) => [name, await data.text()]));

async function sent(...files: CodeFile[]) {
  const { files: chosen, leftOut } = await chosenFiles(files);
  return { files: chosen.map(({ name }) => name), leftOut: leftOut.map(({ name, numFiles }) => [name, numFiles]) };
}

test("version control and caches are never sent, and need no word", async () => {
  const found = await sent(
    file("train.py"),
    file(".git/HEAD"),
    file("a/__pycache__/x.pyc"),
    file("a/b.pyc"),
    file("a/c"),
  );
  expect(found).toEqual({ files: ["train.py", "a/c"], leftOut: [] });
});

test("what .gitignore names is left out, and told", async () => {
  const rules = "# data\n*.bin\n!keep.bin\n/out/\nlogs/**/*.txt\n";
  const found = await sent(
    file(".gitignore", rules),
    file("a.bin"),
    file("b/keep.bin"),
    file("out/1"),
    file("out/2"),
    file("b/out/3"),
    file("logs/x/y.txt"),
    file("logs/z.md"),
  );
  expect(found.files).toEqual([".gitignore", "b/keep.bin", "b/out/3", "logs/z.md"]);
  expect(found.leftOut.toSorted()).toEqual([
    ["a.bin", 1],
    ["logs/x/y.txt", 1],
    ["out/", 2],
  ]);
});

test("a virtual environment is left out whatever its name, and told", async () => {
  const found = await sent(
    file("train.py"),
    file("env/pyvenv.cfg"),
    file("env/bin/python"),
    file("conda/conda-meta/history"),
    file("conda/x"),
  );
  expect(found).toEqual({
    files: ["train.py"],
    leftOut: [
      ["conda/", 2],
      ["env/", 2],
    ],
  });
});

test(".musterignore goes before .gitignore, and an inner file before an outer one", async () => {
  const found = await sent(
    file(".gitignore", "*.txt"),
    file(".musterignore", "*.md"),
    file("a.txt"),
    file("a.md"),
    file("sub/.gitignore", "!b.md"),
    file("sub/b.md"),
    file("sub/c.md"),
  );
  expect(found.files).toEqual([".gitignore", ".musterignore", "a.txt", "sub/.gitignore", "sub/b.md"]);
});

test("patterns mean what they mean to git", async () => {
  const all = ["a1.log", "ax.log", "sub/a1.log", "doc/x/y", "doc/y", "x#", "b[c]", "d.e", "dxe"];
  const cases: [string, string[]][] = [
    ["a[0-9].log", ["a1.log", "sub/a1.log"]],
    ["a[!0-9].log", ["ax.log"]],
    ["/a1.log", ["a1.log"]],
    ["sub/*.log", ["sub/a1.log"]],
    ["doc/**/y", ["doc/x/y", "doc/y"]],
    ["doc/*", ["doc/x/", "doc/y"]],
    ["x\\#", ["x#"]],
    ["b\\[c\\]", ["b[c]"]],
    ["d.e   ", ["d.e"]],
    ["nothing/", []],
  ];
  for (const [pattern, expected] of cases) {
    const { leftOut } = await sent(file(".gitignore", pattern), ...all.map((name) => file(name)));
    expect(leftOut.map(([name]) => name).toSorted(), pattern).toEqual(expected.toSorted());
  }
});

test("the digest is SHA-256, however the bytes come", () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 1000]) {
    const bytes = new Uint8Array(length).map((_, i) => i * 7);
    const digest = new Sha256();
    digest.update(bytes.subarray(0, length >> 1));
    digest.update(bytes.subarray(length >> 1));
    expect(digest.hex()).toBe(createHash("sha256").update(bytes).digest("hex"));
  }
});

test("the bundle is one that tar reads, the same for the same files", async () => {
  const long = `${"folder/".repeat(20)}file.py`;
  const files = [
    file("train.py", "print(1)\n"),
    { ...file("run.sh", "#!"), isExecutable: true },
    file(long),
    file("ä.txt"),
  ];
  const packed = await pack(files, 1 << 20);
  const again = await pack(files.toReversed(), 1 << 20);
  expect(packed?.sha256).toBe(again?.sha256);
  const bytes = new Uint8Array((await packed?.body.arrayBuffer()) ?? new ArrayBuffer());
  expect(packed?.sha256).toBe(createHash("sha256").update(bytes).digest("hex"));
  const folder = mkdtempSync(join(tmpdir(), "muster-tar-"));
  try {
    writeFileSync(join(folder, "code.tar.gz"), bytes);
    const listed = execFileSync("tar", ["tvzf", "code.tar.gz", "--quoting-style=literal"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(listed).toMatch(/^-rwxr-xr-x .* run\.sh$/m);
    execFileSync("tar", ["xzf", "code.tar.gz"], { cwd: folder });
    expect(readFileSync(join(folder, long), "utf8")).toBe(long);
    expect(readFileSync(join(folder, "train.py"), "utf8")).toBe("print(1)\n");
  } finally {
    rmSync(folder, { recursive: true });
  }
  const back = await unpack(new File([bytes], "code.tar.gz"));
  expect((await texts(back)).toSorted()).toEqual((await texts(files)).toSorted());
  expect(back.find(({ name }) => name === "run.sh")?.isExecutable).toBe(true);
});

test("what is too large is not packed", async () => {
  let seed = 1;
  const noise = new Uint8Array(100_000).map(() => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed >>> 8;
  });
  expect(await pack([{ name: "a", data: new Blob([noise]) }], 50_000)).toBeNull();
});

test("a zip is read, without the one folder that holds everything", async () => {
  const zip = execFileSync(
    "python3",
    [
      "-c",
      "import io,sys,zipfile\nb=io.BytesIO()\nz=zipfile.ZipFile(b,'w',zipfile.ZIP_DEFLATED)\n" +
        "z.writestr('repo/train.py','x'*1000)\nz.writestr('repo/a/b.txt','b',zipfile.ZIP_STORED)\n" +
        "z.writestr('repo/','')\nz.writestr('../evil','no')\nz.close()\nsys.stdout.buffer.write(b.getvalue())",
    ],
    { maxBuffer: 1 << 20 },
  );
  const files = await unpack(new File([new Uint8Array(zip)], "repo.zip"));
  expect(await texts(withoutTop(files))).toEqual([
    ["train.py", "x".repeat(1000)],
    ["a/b.txt", "b"],
  ]);
  await expect(unpack(new File(["nonsense"], "x.zip"))).rejects.toThrow("x.zip");
  await expect(unpack(new File(["nonsense"], "x.tar.gz"))).rejects.toThrow("x.tar.gz");
});
