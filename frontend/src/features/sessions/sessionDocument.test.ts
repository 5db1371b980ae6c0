// @vitest-environment node
import { expect, test } from "vitest";

import { sessionDocument, type SessionWish } from "./sessionDocument";

const wish: SessionWish = { kind: "jupyter", name: " ", slots: 2, idle: "45m", project: null };

test("a session of its own is named after its kind, and may not be moved", () => {
  expect(sessionDocument(wish)).toEqual({
    name: "session-jupyter",
    session: { kind: "jupyter", idle: "45m" },
    resources: { slots: 2, nodes: 1, preemptible: false },
  });
});

test("a session opened from a run has its project, environment, data and code", () => {
  const config = {
    project: "vision",
    environment: { requirements: ["einops"] },
    data: {},
    entrypoint: "train.py",
    code: { path: "src", include: ["*.py"], workdir: "scripts", installed: null },
  };
  const made = sessionDocument({ ...wish, pool: "gpu", slotType: "cuda" }, { config, blob_sha256: "ab" });
  expect(made).toEqual({
    name: "session-jupyter",
    session: { kind: "jupyter", idle: "45m" },
    project: "vision",
    environment: { requirements: ["einops"] },
    code: { path: ".", workdir: "scripts" },
    resources: { slots: 2, nodes: 1, preemptible: false, pool: "gpu", slot_type: "cuda" },
  });
  const other = sessionDocument({ ...wish, project: "speech" }, { config, blob_sha256: null });
  expect(other).toMatchObject({ project: "speech" });
  expect(other).not.toHaveProperty("code");
});
