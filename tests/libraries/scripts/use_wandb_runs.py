"""wandb: one run after another, with an axis of their own, and a name of any letters."""

import json
from pathlib import Path

import wandb

expected: dict[str, dict[str, float]] = {}
for fold in (1, 2):
    start = "" if fold == 1 else "run-2/"
    run = wandb.init(project="folds", name=f"fold {fold}")
    run.define_metric("val/*", step_metric="epoch")
    for epoch in range(3):
        for _ in range(2):
            run.log({"loss > 0": fold + epoch, "准确率@1": fold})
        run.log({"epoch": epoch, "val/loss": fold})
        at = 3 * epoch
        for name in ("loss > 0", "准确率@1"):
            value = fold + epoch if name == "loss > 0" else fold
            expected.setdefault(start + name, {}).update({str(at): value, str(at + 1): value})
        expected.setdefault(f"{start}val/loss", {})[str(epoch)] = fold
        expected.setdefault(f"{start}epoch", {})[str(at + 2)] = epoch
    run.finish()
Path("expected.json").write_text(json.dumps(expected))
