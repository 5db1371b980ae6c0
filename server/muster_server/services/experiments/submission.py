"""Submitting experiments, and changing what does not concern how they run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.code.archive import ArchiveMember
from muster.document.experiment import ExperimentConfig
from muster.document.running import CodeSection
from muster.launch.commands import entry_file
from muster_server.db.engine import touch
from muster_server.db.models import BlobRow, ExperimentRow, ProjectRow, SearchEventRow, SpendingRow
from muster_server.db.sight import SEES_ALL, may_create_projects
from muster_server.domain.experiments.reuse import declared, obstacle
from muster_server.domain.guards.defaults import with_defaults
from muster_server.domain.insight.probes import Purpose
from muster_server.domain.messages import Message
from muster_server.domain.search import (
    Event,
    Roomed,
    Searcher,
    Started,
    action_to_json,
    event_to_json,
)
from muster_server.domain.search.methods import method_of
from muster_server.domain.states import ExperimentState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest
from muster_server.schemas.experiments import ExperimentIn, ExperimentPatch
from muster_server.security.principal import Principal
from muster_server.services.core.lookup import get_experiment

from ..checkpoints import sources
from ..core import access, blobs, idempotency
from ..core.events import add_event
from ..core.ownership import require_charge
from ..documents import (
    Resolved,
    check_entry_file,
    check_line_ends,
    check_requirements,
    resolve,
    search_spec,
)
from ..documents.guards import flat
from ..lifecycle.dependencies import check_after, waits_of
from ..quota import budgets, projects, spending
from ..search import concurrency, warm_start
from ..search.decide import carry_out
from ..secrets.lookup import check_secrets
from .model_uses import add_uses, resolve_models

MAX_LABELS = 64


def too_many_labels(message: str) -> InvalidRequest:
    """Return the error for too many labels.

    message: a sentence that gives the actual or resulting number of labels.
    """
    return InvalidRequest(
        "experiments.too_many_labels",
        message,
        fields=[FieldProblem("labels", Message("field.too_many", limit=MAX_LABELS))],
    )


@dataclass(frozen=True)
class Submission:
    experiment_id: int
    is_new: bool
    """False: a repetition, answered with what the first request made."""


@dataclass(frozen=True)
class ResolvedSubmission(Resolved):
    """A document with what was found while it was checked."""

    budget: dict[str, Any] | None = None
    """Its budget as it is kept."""
    warm: warm_start.Found | None = None


def resolve_submission(
    session: Session,
    body: ExperimentIn,
    *,
    user_id: int | None,
    role: str | None = None,
    now: dt.datetime,
) -> ResolvedSubmission:
    """Return the document of a submission, checked with its code bundle, its source, its budget and
    the secrets that this user can use.

    user_id: None for the server itself. role: that of the user's token; None for the user's own.
    Raises Forbidden if the user may not submit to the project.
    """
    resolved = resolve(body.document, body.overrides)
    if resolved.config is None:
        return ResolvedSubmission(problems=resolved.problems)
    config = resolved.config
    access.require_submit(session, config.project, user_id=user_id, role=role)
    config = _with_guards(session, config, resolved.origins)
    budget, late = budgets.store(config.budget, now=now)
    found = sources.find(session, config.from_) if config.from_ is not None else None
    warm = warm_start.find(session, config)
    problems = [
        p
        for p in (
            _check_code(session, config, body.blob_sha256),
            late,
            check_secrets(session, config, user_id=user_id),
            sources.misuse(found, config) if isinstance(found, sources.Source) else found,
            warm if isinstance(warm, FieldProblem) else None,
        )
        if p is not None
    ]
    problems += [*check_after(session, config.after), *_check_reuse(config, body.blob_sha256)]
    config, unknown = resolve_models(session, config)
    problems += unknown
    if problems:
        return ResolvedSubmission(problems=tuple(problems))
    if isinstance(found, sources.Source) and config.from_ is not None:
        config = replace(config, from_=found.named(config.from_))
    return ResolvedSubmission(
        config=config,
        origins=resolved.origins,
        warnings=resolved.warnings,
        budget=budget,
        warm=warm if isinstance(warm, warm_start.Found) else None,
    )


def _with_guards(
    session: Session, config: ExperimentConfig, origins: dict[str, str]
) -> ExperimentConfig:
    """Return the configuration with the guards of its project, unless it says `guards: []`."""
    is_refused = not config.guards and origins.get("guards") != "default"
    if is_refused or config.search.runner == "external":
        return config
    project = session.scalar(select(ProjectRow).where(ProjectRow.name == config.project))
    defaults = projects.guards_of(project) if project is not None else ()
    if not defaults:
        return config
    origins["guards"] = "project"
    hparams = flat(config.hyperparameters)
    return replace(config, guards=with_defaults(config.guards, defaults, hparams))


def create_experiment(
    session: Session,
    body: ExperimentIn,
    *,
    user_id: int | None,
    user_name: str,
    role: str | None = None,
    now: dt.datetime,
    idempotency_key: str | None = None,
    parent: ExperimentRow | None = None,
    purpose: Purpose | None = None,
) -> Submission:
    """Store a submission with its first trials.

    With an idempotency key, a repetition of the same request returns the first one's experiment.
    role: that of the user's token; None for the user's own.
    parent: the experiment it is forked from. purpose: what about the parent it is to find out.
    Raises InvalidRequest with every problem found, Forbidden if the user may not submit to the
    project, and Conflict when the key was used for something else.
    """
    parent_id = parent.id if parent is not None else None
    request = {"operation": "submit", "parent": parent_id, "body": body.model_dump(mode="json")}
    earlier = idempotency.claim(session, user_id, idempotency_key, request, now)
    if earlier is not None:
        return Submission(_still_there(session, earlier.experiment_id), is_new=False)
    resolved = resolve_submission(session, body, user_id=user_id, role=role, now=now)
    if resolved.config is None:
        raise invalid_document(resolved.problems)
    experiment = _insert(
        session, body, resolved.config, resolved, user_id, user_name, parent, purpose, now
    )
    idempotency.settle(session, user_id, idempotency_key, experiment_id=experiment.id)
    return Submission(experiment.id, is_new=True)


def invalid_document(problems: Sequence[FieldProblem]) -> InvalidRequest:
    return InvalidRequest(
        "experiments.invalid_document",
        "The experiment document cannot work as written.",
        hint="`muster validate` checks a document without submitting it.",
        fields=problems,
    )


def _still_there(session: Session, experiment_id: int | None) -> int:
    """Return the ID of the experiment that a repeated request created.

    Raises Conflict if the experiment has been deleted since.
    """
    row = session.get(ExperimentRow, experiment_id or 0)
    if row is None or row.deleting_at is not None:
        raise Conflict(
            "request.idempotency_key_reused",
            "This Idempotency-Key belongs to an experiment that was deleted.",
            hint="Use a new key to submit it again.",
        )
    return row.id


def update_experiment(
    session: Session,
    experiment_id: int,
    patch: ExperimentPatch,
    *,
    principal: Principal,
    now: dt.datetime,
) -> None:
    """Change what a user may change. Priority moves queued trials in the queue.

    Raises NotFound, InvalidRequest, and Forbidden for an experiment of somebody else.
    """
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, principal, experiment)
    if patch.labels is not None and len(patch.labels) > MAX_LABELS:
        raise too_many_labels(
            f"An experiment has at most {MAX_LABELS} labels, {len(patch.labels)} were given."
        )
    if patch.name is not None:
        experiment.name = patch.name
    if patch.notes is not None:
        experiment.notes = patch.notes
    if patch.labels is not None:
        experiment.labels = dict(patch.labels)
    if patch.priority is not None and patch.priority != experiment.priority:
        add_event(
            session,
            "experiment.priority_changed",
            f"Priority changed from {experiment.priority} to {patch.priority}.",
            now=now,
            experiment_id=experiment_id,
        )
        experiment.priority = patch.priority
        touch(session, "loops", "cluster")
    touch(session, "experiments", f"experiment:{experiment_id}")


def _insert(
    session: Session,
    body: ExperimentIn,
    config: ExperimentConfig,
    resolved: ResolvedSubmission,
    user_id: int | None,
    user_name: str,
    parent: ExperimentRow | None,
    purpose: Purpose | None,
    now: dt.datetime,
) -> ExperimentRow:
    searcher = Searcher(search_spec(config))
    room = concurrency.room_now(session, config, user_id=user_id, now=now)
    events: list[Event] = [Started()]
    if room is not None:
        events.insert(0, Roomed(room=room, key="room"))
    if resolved.warm is not None:
        events.insert(0, resolved.warm.event)
    decided = [searcher.apply(event) for event in events]
    actions = [action for some in decided for action in some]
    source = sources.describe(session, config.from_, parent=parent)
    experiment = ExperimentRow(
        id=_free_id(session),
        project_id=projects.find_or_make(session, config.project, now, user_id=user_id),
        owner_id=user_id,
        name=config.name,
        labels=config.labels,
        notes=config.notes,
        state=ExperimentState.QUEUED,
        document=body.document,
        overrides=list(body.overrides),
        config=config,
        num_guards=len(config.guards),
        budget=resolved.budget,
        parent_id=source["experiment_id"] if source is not None else None,
        source=source,
        purpose=purpose,
        blob_sha256=body.blob_sha256,
        left_out=body.left_out or None,
        code_version=body.code_version.model_dump() if body.code_version else None,
        waits_for=waits_of(config.after),
        priority=config.resources.priority,
        slots_per_trial=config.resources.slots,
        search_state=searcher.state(),
        search_seq=len(events),
        search_room=room,
        metric_name=config.search.metric,
        metric_goal=config.search.goal,
        created_at=now,
    )
    session.add(experiment)
    session.flush()
    spending.open_account(session, experiment.id, experiment.project_id)
    session.add_all(
        SearchEventRow(
            experiment_id=experiment.id,
            seq=seq,
            key=event.key,
            event=event_to_json(event),
            actions=[action_to_json(action) for action in some],
            at=now,
        )
        for seq, (event, some) in enumerate(zip(events, decided, strict=True), start=1)
    )
    add_uses(session, experiment, user_name, now)
    _note_submission(session, experiment, user_name, parent=parent, warm=resolved.warm, now=now)
    carry_out(session, experiment, actions, now)
    return experiment


def _note_submission(
    session: Session,
    experiment: ExperimentRow,
    user_name: str,
    *,
    parent: ExperimentRow | None,
    warm: warm_start.Found | None,
    now: dt.datetime,
) -> None:
    """Add the events of a submission, to the experiment and to the one that it was forked from."""
    add_event(
        session,
        "experiment.created",
        f"Submitted by {user_name}{sources.sentence(experiment.source)}.",
        now=now,
        experiment_id=experiment.id,
    )
    if warm is not None:
        add_event(session, "search.warmed", warm.sentence, now=now, experiment_id=experiment.id)
    if parent is not None:
        add_event(
            session,
            "experiment.forked",
            f"{user_name} forked experiment {experiment.id} ({experiment.name}) from it.",
            now=now,
            experiment_id=parent.id,
            data={"experiment_id": experiment.id},
        )
        touch(session, f"experiment:{parent.id}")


def _free_id(session: Session) -> int | None:
    """Return an ID that no experiment ever had; None: the database sees to it.

    SQLite gives the id of a deleted last row out again, and with it the folder of its files. Its
    write transactions come one by one, so nobody takes the number found here meanwhile.
    """
    if session.get_bind().dialect.name != "sqlite":
        return None
    newest = (select(func.max(of)) for of in (ExperimentRow.id, SpendingRow.experiment_id))
    return max(session.scalar(one, execution_options=SEES_ALL) or 0 for one in newest) + 1


def _check_reuse(config: ExperimentConfig, blob_sha256: str | None) -> Iterator[FieldProblem]:
    """Yield why a document cannot take the results of earlier trials, if it is to."""
    if not config.reuse:
        return
    if (found := obstacle(config, blob_sha256, declared(config))) is not None:
        yield FieldProblem(found.path, found.problem, found.hint)
    if method_of(config.search.method).is_search and not may_create_projects():
        # Later trials are made without the token, for somebody who may see more.
        yield FieldProblem(
            "reuse", "a token that is limited to projects cannot reuse in a search", "sign in"
        )


def _check_code(
    session: Session, config: ExperimentConfig, blob_sha256: str | None
) -> FieldProblem | None:
    code = config.code or CodeSection()
    files = [entry_file(words) for words in config.entrypoints.values()]
    if blob_sha256 is None:
        has_file = any(file and not file.startswith("/") for file in files)
        # With what is built in, `code` holds the functions that its document names.
        has_functions = config.built_in_module is not None and code.path is not None
        if (has_file or has_functions) and code.installed is None:
            needs = "functions" if has_functions else "entry point"
            if config.session is not None:
                needs = "session"
            return FieldProblem(
                "code",
                f"no code was uploaded for the {needs}",
                "submit with `muster submit`, which uploads code.path; or use "
                "code: {installed: /folder}, or the built-in trainer",
            )
        return None
    is_built_in = config.built_in_module is not None and code.path is None
    if is_built_in or code.installed is not None:
        return FieldProblem(
            "blob_sha256",
            "a code bundle has no effect with the built-in trainer or installed code",
            "submit without it",
        )
    if session.get(BlobRow, blob_sha256) is None:
        return FieldProblem(
            "blob_sha256",
            Message("field.no_such_bundle"),
            "PUT /api/v1/blobs/{sha256} first",
        )

    def read_members(names: Collection[str]) -> list[ArchiveMember]:
        return blobs.list_members(session, blob_sha256, read=names)

    members = read_members([code.within(file) for file in files or [""]])
    return (
        check_entry_file(config, members)
        or check_line_ends(config, members)
        or check_requirements(config, members, read_members)
    )
