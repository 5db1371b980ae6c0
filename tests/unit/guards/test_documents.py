"""Guards in documents: what is refused, where, and with what that would work."""

import pytest

from muster_server.domain.messages import english
from muster_server.services.documents import resolve
from muster_server.services.documents.guards import read_guards

DOCUMENT = """
name: x
entrypoint: train.py
search: {{method: random, trials: 2}}
hyperparameters: {{lr: {{log: [1e-4, 1e-1]}}, optimizer: {{name: sgd}}}}
guards:
  - {guard}
"""


def problems(guard):
    found = resolve(DOCUMENT.format(guard=guard)).problems
    return [(p.path, english(p.message), p.hint) for p in found]


@pytest.mark.parametrize(
    ("guard", "path", "message", "hint"),
    [
        ("{metrik: a, action: stop, above: 1}", "guards[0].metrik", "does not exist", "did you mean 'metric'?"),
        (
            "{metric: a, spike: {time: 5}, action: stop}",
            "guards[0].spike.time", "does not exist", "did you mean 'times'?",
        ),
        ("{metric: a, above: high, action: stop}", "guards[0].above", "must be a number", None),
        ("{metric: a, above: 1}", "guards[0].action", "is missing", "add `action:`"),
        ("{metric: a, above: 1, action: halt}", "guards[0].action", "must be one of", None),
        ("{metric: a, action: stop}", "guards[0]", "has no condition", "add one of not_finite"),
        ("{above: 1, action: stop}", "guards[0].metric", "is missing", "add `metric: train/loss`"),
        (
            "{metric: a, above: 1, not_finite: true, action: stop}",
            "guards[0].above", "not_finite", "write a guard for each condition",
        ),
        (
            "{no_step_for_min: 5, metric: a, action: stop}",
            "guards[0].metric", "no_step_for_min", "keep one of them",
        ),
        (
            "{straggler: {}, no_step_for_min: 5, action: stop}",
            "guards[0].straggler", "no_step_for_min", "keep one of them",
        ),
        (
            "{straggler: {}, metric: a, action: stop}",
            "guards[0].metric", "straggler", "keep one of them",
        ),
        ("{straggler: {share: 25}, action: stop}", "guards[0].straggler.share", "must be below 1", None),
        ("{metric: a, not_finite: true, at_step: 5, action: stop}", "guards[0].at_step", "needs", None),
        ("{metric: a, plateau: {min_change: 1}, action: stop}", "guards[0].plateau", "needs steps", None),
        (
            "{metric: a, above: 1, action: stop, set: {lr: x0.5}}",
            "guards[0].set", "has no effect", "use action: rollback",
        ),
        (
            "{metric: a, above: 1, action: stop, otherwise: stop}",
            "guards[0].otherwise", "has no effect", "leave it out",
        ),
        (
            "{metric: a, above: 1, action: rollback, set: {lrr: x0.5}}",
            "guards[0].set.lrr", "is no hyperparameter", "did you mean 'lr'?",
        ),
        (
            "{metric: a, above: 1, action: rollback, set: {optimizer.name: x0.5}}",
            "guards[0].set.optimizer.name", "is a factor", "write the new value",
        ),
        (
            "{metric: a, above: 1, action: rollback, set: {lr: x.5}}",
            "guards[0].set.lr", "is 'x.5', and the hyperparameter is a number", "written x0.5",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work(guard, path, message, hint):
    ((found_path, found_message, found_hint),) = problems(guard)
    assert found_path == path
    assert message in found_message
    assert (hint or "") in (found_hint or "")


def test_guards_alone_under_a_misspelt_key():
    _, ((found,)) = read_guards("guard: [{metric: a, above: 1, action: stop}]", {})
    assert (found.path, english(found.message)) == ("guards", "is missing")
    assert "document with `guards`" in (found.hint or "")


def test_seventeen_guards_are_too_many():
    of = "{metric: a, above: 1, action: stop}"
    assert [p[0] for p in problems(of + f"\n  - {of}" * 16)] == ["guards"]


def test_they_are_read_as_written():
    of = "{metric: a, spike: {}, action: rollback, set: {lr: x0.5, optimizer.name: adam, n: 3}}"
    resolved = resolve(DOCUMENT.format(guard=of).replace("lr: {log", "n: 2, lr: {log"))
    assert resolved.problems == ()
    (guard,) = resolved.config.guards
    assert guard.set_ == {"lr": "x0.5", "optimizer.name": "adam", "n": 3}
    assert type(guard.set_["n"]) is int
    assert (guard.spike.times, guard.spike.window, guard.max_times) == (5.0, 50, 1)


@pytest.mark.parametrize(
    "text",
    [
        "- {metric: a, above: 1, action: stop}",
        "guards: [{metric: a, above: 1, action: stop}]",
        "name: x\nguards: [{metric: a, above: 1, action: stop}]",
    ],
)
def test_guards_alone(text):
    guards, found = read_guards(text, {})
    assert (len(guards), found) == (1, [])


@pytest.mark.parametrize(
    ("text", "path"),
    [("[]", "guards"), ("5", "guards"), ("- {metric: a, abov: 1, action: stop}", "guards[0].abov")],
)
def test_guards_alone_that_cannot_work(text, path):
    guards, found = read_guards(text, {})
    assert (guards, found[0].path) == ((), path)
