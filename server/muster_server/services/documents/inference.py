"""Checks of the models that a document names, and of the built-in programs that read one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from muster.document.experiment import ExperimentConfig
from muster.document.inference import JOB_MODEL, PROGRAMS, USED_MODELS_MAX
from muster.document.session import IDLE_MAX_S, IDLE_MIN_S
from muster.document.trainer_settings import is_own
from muster.durations import duration_s
from muster_server.domain.durations import DURATION_EXAMPLES
from muster_server.domain.messages import Message
from muster_server.domain.search import sampling
from muster_server.domain.search.methods import method_of
from muster_server.errors import FieldProblem


def job_functions(document: ExperimentConfig) -> bool:
    """Return whether a built-in program is given a function from the user's code."""
    kind = document.job_kind
    section = getattr(document, kind) if kind is not None else None
    return is_own(getattr(section, "data", None)) or bool(getattr(section, "function", None))


def check_models(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    """Yield what is wrong with `models`, and what a built-in program has no use for."""
    kind = document.job_kind
    if kind is None:
        return
    if document.reads_a_model and JOB_MODEL in document.models:
        yield FieldProblem(
            f"models.{JOB_MODEL}",
            Message("field.beside", other=f"{kind}.model"),
            f"keep {kind}.model, or use another name",
        )
    if document.reads_a_model and len(document.models) >= USED_MODELS_MAX:
        yield FieldProblem(
            "models",
            f"names {len(document.models)} versions, which with {kind}.model are more than "
            f"{USED_MODELS_MAX}",
            "leave one out",
        )
    served = document.serve
    if served is not None and served.listen == "node" and served.key_sha256 is None:
        yield FieldProblem(
            "serve.key_sha256",
            Message("field.missing"),
            "everybody who reaches the node could send requests: give the SHA-256 of a secret",
        )
    unused = {
        "hyperparameters": bool(parameters),
        "array": bool(document.array),
        "search.method": method_of(document.search.method).is_search and not document.array,
        "from": document.from_ is not None and document.reads_a_model,
    }
    for path in (path for path, is_there in unused.items() if is_there):
        yield FieldProblem(path, Message("field.no_effect", other=kind), "leave it out")
    yield from _check_predict(document)
    yield from _check_session(document)
    if kind == "export" and document.outputs is None:
        yield FieldProblem("outputs", "null keeps nothing of what is exported", "leave it out")
    most = PROGRAMS[kind].slots_max
    if most is not None and document.resources.slots > most:
        yield FieldProblem(
            "resources.slots",
            f"{document.resources.slots} slots are more than {kind} makes use of",
            f"use {most}",
        )


def _check_session(document: ExperimentConfig) -> Iterator[FieldProblem]:
    if document.session is None:
        return
    idle_s = duration_s(document.session.idle)
    if idle_s is None or not IDLE_MIN_S <= idle_s <= IDLE_MAX_S:
        yield FieldProblem(
            "session.idle",
            f"{document.session.idle!r} is no length of time from {IDLE_MIN_S:g} s to "
            f"{IDLE_MAX_S / 86_400:g} days",
            DURATION_EXAMPLES,
        )
    if document.resources.slots > 1 and document.resources.nodes != 1:
        yield FieldProblem(
            "resources.nodes",
            f"a session runs on one node, and its {document.resources.slots} slots may be on several",
            "set resources.nodes: 1",
        )


def _check_predict(document: ExperimentConfig) -> Iterator[FieldProblem]:
    predict = document.predict
    if predict is None:
        return
    for i, path in enumerate(predict.inputs):
        if not PurePosixPath(path).is_absolute():
            yield FieldProblem(
                f"predict.inputs[{i}]",
                f"{path!r} is no absolute path",
                "write the path that the nodes know it by, such as /data/rows/*.jsonl",
            )
    if predict.function is not None and predict.column is not None:
        yield FieldProblem(
            "predict.column",
            Message("field.no_effect", other="predict.function"),
            "leave it out: the function gets whole rows",
        )
    if document.outputs is None:
        yield FieldProblem(
            "outputs",
            "null keeps nothing, and the predictions are outputs",
            "leave it out",
        )
