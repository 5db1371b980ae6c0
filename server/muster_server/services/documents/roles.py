"""Roles in a document: entry points as arguments, defaults, and what they do not go together with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from muster.document.experiment import ExperimentConfig
from muster.document.inference import PROGRAMS
from muster.document.roles import MEMBERS_MAX, RoleSection, images_of, num_slots
from muster.document.strategy import StrategySection
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem

from . import entrypoints


def normalise(written: Any) -> tuple[Any, list[FieldProblem]]:
    """Return the section with each entry point as arguments, and what is wrong with them."""
    if not isinstance(written, dict):
        return written, []
    problems: list[FieldProblem] = []
    found: dict[Any, Any] = {}
    for name, role in written.items():
        found[name] = role
        if isinstance(role, dict) and role.get("entrypoint") is not None:
            arguments, problem = entrypoints.normalise(role["entrypoint"])
            found[name] = {**role, "entrypoint": arguments}
            if problem is not None:
                # How a role is started is not the document's to choose.
                hint = (problem.hint or "").partition("; launcher:")[0]
                problems.append(replace(problem, path=f"roles.{name}.entrypoint", hint=hint))
                found[name] = {**role, "entrypoint": ["-"]}
    return found, problems


def filled_in(document: ExperimentConfig) -> ExperimentConfig:
    """Return the document with the sum of slots, and with what follows when each role ends."""
    if not document.roles:
        return document
    first = next(iter(document.roles))
    roles = {
        name: replace(role, on_end=role.on_end or ("finish" if name == first else "wait"))
        for name, role in document.roles.items()
    }
    resources = replace(document.resources, slots=num_slots(roles))
    return replace(document, roles=roles, resources=resources, launcher=None)


def check(document: ExperimentConfig) -> Iterator[FieldProblem]:
    """Yield what is wrong with the roles, and what they do not go together with."""
    if not document.roles:
        return
    yield from _beside(document)
    roles = document.roles
    num_members = sum(role.count for role in roles.values())
    if num_members > MEMBERS_MAX:
        yield FieldProblem(
            "roles",
            f"have {num_members} members together, and {MEMBERS_MAX} are possible",
            "lower count, or let a member run several processes",
        )
    total = num_slots(roles)
    if document.resources.slots not in (1, total):
        yield FieldProblem(
            "resources.slots",
            f"is {document.resources.slots}, but the roles need {total} together",
            "leave it out: it is their sum",
        )
    first = next(iter(roles))
    for name, role in roles.items():
        yield from _check_role(document, name, role, is_first=name == first)


def _check_role(
    document: ExperimentConfig, name: str, role: RoleSection, *, is_first: bool
) -> Iterator[FieldProblem]:
    finishes = role.on_end == "finish" or (role.on_end is None and is_first)
    if role.on_failure == "ignore" and finishes:
        yield FieldProblem(
            f"roles.{name}.on_failure",
            "is ignore, but the end of this role ends the trial, and then nobody would say that it failed",
            "write restart or restart_all, or on_end: wait",
        )
    if role.on_failure == "restart" and images_of(document.roles, document.environment.image)[name]:
        yield FieldProblem(
            f"roles.{name}.on_failure",
            "is restart, which is not possible in a container (environment.image, or the role's own)",
            "write restart_all, or leave image out",
        )
    if role.on_failure != "restart" and role.max_restarts != RoleSection.max_restarts:
        yield FieldProblem(
            f"roles.{name}.max_restarts",
            Message("field.no_effect", other=f"on_failure: {role.on_failure}"),
            "leave it out, or write on_failure: restart",
        )


def _beside(document: ExperimentConfig) -> Iterator[FieldProblem]:
    """Yield the fields that are about one kind of job, in which all workers are alike."""
    resources = document.resources
    for path, is_there in (
        *(
            (name, getattr(document, name) is not None)
            for name in ("trainer", "launcher", *PROGRAMS)
        ),
        ("entrypoint", document.entrypoint is not None),
        ("strategy", document.strategy != StrategySection()),
        ("resources.min_slots", resources.min_slots is not None),
        ("resources.nodes", resources.nodes is not None),
        ("resources.uneven", resources.uneven),
        ("environment.network", document.environment.network != "host"),
        ("preflight.network", document.preflight.network),
        ("reuse", document.reuse),
        ("checkpoints.local", document.checkpoints.local),
        ("checkpoints.adopt", document.checkpoints.adopt is not None),
    ):
        if is_there:
            yield FieldProblem(
                path, Message("field.beside", other="roles"), f"leave out {path} or roles"
            )
