"""Which checkpoint an alias moves to, and what a version of a model consists of: pure decisions."""

from __future__ import annotations

import math

import pytest

from muster.document.codec import dump
from muster.document.training import TrainerSection
from muster.wire import content_digest
from muster_models.domain.registry.card import CardFacts, model_card, recipe_of
from muster_models.domain.registry.contents import (
    clash,
    path_problem,
    warning_of,
)
from muster_models.domain.registry.promotion import (
    AliasHolder,
    PromotionCandidate,
    decide_promotion,
)


def candidates(*values: float | None) -> list[PromotionCandidate]:
    return [
        PromotionCandidate(checkpoint_id=n, trial_no=n, step=10 * n, value=value)
        for n, value in enumerate(values, start=1)
    ]


def holder(value: float | None, checkpoint_id: int | None = 99) -> AliasHolder:
    return AliasHolder(number=7, checkpoint_id=checkpoint_id, value=value)


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("values", "held", "goal", "outcome", "chosen", "said"),
    [
        ([0.3, 0.1, 0.2], None, "min", "move", 2, "the best of the experiment"),
        ([0.3, 0.1, 0.2], None, "max", "move", 1, "val is 0.3 at step 10 of trial 1"),
        ([NAN, 0.4, -INF, None], None, "min", "move", 2, "trial 2"),
        ([0.2, 0.2], None, "min", "move", 1, "step 10"),
        ([0.3], holder(0.4), "min", "move", 1, "better than 0.4 of version 7"),
        ([0.4], holder(0.4), "min", "keep", 1, "not better than 0.4 of version 7"),
        ([0.5], holder(0.4), "min", "keep", 1, "not better"),
        ([0.5], holder(0.4), "max", "move", 1, "better than"),
        ([0.5], holder(0.1, checkpoint_id=1), "min", "keep", 1, "already the best"),
        ([0.5], holder(None), "min", "move", 1, "version 7 has no value of it"),
        ([0.5], holder(NAN), "min", "move", 1, "version 7 has the value nan"),
        ([], holder(0.4), "min", "refuse", None, "no complete checkpoint"),
        ([None, None], None, "min", "refuse", None, "was it reported before they were saved?"),
        ([NAN], None, "max", "refuse", None, "no finite value of val"),
        ([NAN, None], None, "max", "refuse", None, "all are missing, NaN or infinite"),
    ],
)
def test_an_alias_moves_only_to_a_better_finite_value(values, held, goal, outcome, chosen, said):
    decision = decide_promotion(candidates(*values), held, metric="val", goal=goal)
    assert decision.outcome == outcome
    assert (decision.candidate.checkpoint_id if decision.candidate else None) == chosen
    assert said in decision.reason


def test_a_digest_is_that_of_the_files_alone():
    files = {"b/x": "1" * 64, "a": "2" * 64}
    assert content_digest(files) == content_digest(dict(reversed(files.items())))
    assert content_digest(files) != content_digest({"b/x": "2" * 64, "a": "1" * 64})
    assert content_digest(files).startswith("sha256:")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../b", "a//b", "./a", "", "a\\b", "C:/x", "a\nb", "e\u0301", ".muster-model.json",
     "x" * 501],
)  # fmt: skip
def test_paths_that_leave_the_folder_are_refused(path):
    assert path_problem(path)


def test_ordinary_paths_are_fine_and_clashes_are_found():
    assert [path_problem(p) for p in ("model.safetensors", "a/b c/模型.json", "a.b/..c")] == [
        None
    ] * 3
    assert clash({"a": 1, "a/b": 2}) == "a"
    assert clash({"a": 1, "ab": 2}) is None


def test_files_that_can_run_code_say_so():
    assert "run code" in warning_of("data/model.PT2")
    assert warning_of("python_model.pkl")
    assert warning_of("model.safetensors") == warning_of("config.json") == ""


def test_a_card_has_what_is_known_and_no_markup_of_people():
    facts = CardFacts(
        model="digits", number=3, digest="sha256:ab", created_at="2026-01-02 03:04 UTC",
        created_by="user:ada", description="A <b>bold</b> | model", source="a checkpoint",
        lineage={
            "experiment_id": 4, "experiment_name": "x|y", "trial_no": 1, "step": 1200,
            "slot_hours": 0.25, "data": [{"name": "digits"}], "trainer": {"model": "mlp"},
        },
        metrics={"val/loss": 0.5, "val/nan": "NaN"},
        signature={"inputs": [{"name": "", "type": "float32", "shape": [-1, 64]}], "outputs": []},
        files=[("model.pt", None, "Careful.")], aliases=["production"], notes="*Mine.*",
    )  # fmt: skip
    card = model_card(facts)
    assert '"model": "mlp"' in card
    assert "A \\<b\\>bold\\</b\\> \\| model" in card
    assert "| Experiment | 4 (x\\|y) |" in card
    assert "| Step | 1,200 |" in card
    assert "| val/loss | 0.5 |" in card
    assert "| input |  | float32 | \\[?, 64\\] |" in card
    assert "$ muster model pull digits:3 digits-3" in card
    assert "* model.pt: Careful." in card
    assert card.endswith("## Notes\n\n*Mine.*\n")
    bare = model_card(CardFacts(**{
        **vars(facts), "lineage": {}, "metrics": {}, "signature": None, "files": [], "notes": "",
        "description": "", "aliases": [],
    }))  # fmt: skip
    assert [line for line in bare.splitlines() if line.startswith("## ")] == ["## Pull"]


def test_a_recipe_has_the_values_that_were_used_and_no_defaults():
    given = TrainerSection(width=64, options={"seed_data": 3, "log_every": 5})
    lineage = {
        "trainer": dump(given),
        "hyperparameters": {
            "lr": 0.01,
            "dropout": 0.0,
            "log_every": 7,
            "options": {"seed_data": 4},
        },
    }
    assert recipe_of(lineage) == {
        "trainer": {
            "model": "cnn", "data": "digits", "lr": 0.01, "dropout": 0.0, "width": 64,
            "options": {"seed_data": 4, "log_every": 5},
        },
        "hyperparameters": {"log_every": 7},
    }  # fmt: skip
    assert recipe_of({"hyperparameters": {"lr": 0.1}}) == {"hyperparameters": {"lr": 0.1}}
    assert recipe_of({}) == {}
