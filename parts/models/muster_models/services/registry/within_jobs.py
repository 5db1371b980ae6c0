"""Models that a script registers within its job, with MLflow's client.

A job acts for the owner of its experiment, and may do what that member may: administrators' rights do not
go with it. The version has its number at once; its files are those of the trial's outputs when the trial
has ended, which is when the controller makes it ready and its aliases name it.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import ModelRegistration, ModelRegistrationRecord
from muster_models.domain.registry.contents import ALIAS_NAME, ALIAS_NAME_RULE
from muster_models.schemas.registry import MAX_TAGS, MAX_TEXT_CHARS, ModelPatch
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    ModelRow,
    ModelVersionRow,
    ProjectRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.errors import Forbidden, InvalidRequest, MusterError
from muster_server.security.principal import Principal
from muster_server.services.core.callers import Caller
from muster_server.services.core.events import add_event
from muster_server.services.core.texts import storable
from muster_server.services.core.writes import Outdated
from muster_server.services.nodes.records import RecordsCall, StoredRecords
from muster_server.services.outputs.holding import uncollected

from . import aliases, mlmodel
from .lineage import latest_metrics, lineage_of
from .models import find_or_create, require_model, update_model
from .places import VersionContents
from .registration import (
    Draft,
    fail_version,
    number_version,
    output_contents,
    same_version,
    settle_contents,
)

ALIASES_TAG = "muster.aliases"
"""Tag of a version that is being made: what is to name it once it is ready, separated by commas."""
TAG_MAX_CHARS, TAG_VALUE_MAX_CHARS = 250, 5_000
ROLES = ("admin", "member")
"""Roles that may register models."""


def answered(
    session: Session, call: RecordsCall, stored: StoredRecords, now: dt.datetime
) -> StoredRecords:
    """Register what the records of a request register, and return its reply with what came of that. A
    model whose answer was lost is answered again."""
    if stored.reply.superseded:
        return stored
    wanted = [
        numbered.record
        for numbered in call.request.records
        if isinstance(numbered.record, ModelRegistrationRecord)
        and numbered.seq <= stored.reply.acked_seq
    ]
    if not wanted:
        return stored
    allocation = session.get_one(AllocationRow, call.allocation_id)
    trial = session.get_one(TrialRow, allocation.trial_id)
    models = [_record(session, trial, allocation.attempt_no, one, now) for one in wanted]
    session.flush()
    session.expunge_all()
    return replace(stored, reply=replace(stored.reply, models=models))


def _record(
    session: Session,
    trial: TrialRow,
    attempt_no: int,
    reported: ModelRegistrationRecord,
    now: dt.datetime,
) -> ModelRegistration:
    """Register what a script has registered; the same once more changes nothing. Return what came of
    it; an error is told in the trial's events, too, because nobody may wait for the answer any more."""
    if reported.is_lookup:
        return ModelRegistration(no=reported.no, is_new=not _is_known(session, reported.name))
    try:
        with session.begin_nested():
            number, is_new = _register(session, trial, attempt_no, reported, now)
    except MusterError as error:
        what = f"{error.message} {error.hint or ''}".strip()
        add_event(
            session,
            "trial.message",
            f"The model {storable(reported.name, 64)!r} was not registered: {what}",
            now=now,
            level="warning",
            experiment_id=trial.experiment_id,
            trial_id=trial.id,
            attempt_no=attempt_no,
        )
        return ModelRegistration(no=reported.no, error=what)
    return ModelRegistration(no=reported.no, version=number, is_new=is_new)


def _register(
    session: Session,
    trial: TrialRow,
    attempt_no: int,
    reported: ModelRegistrationRecord,
    now: dt.datetime,
) -> tuple[int, bool]:
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    caller = Caller(principal=_owner(session, experiment), now=now)
    project = session.get_one(ProjectRow, experiment.project_id).name
    is_known = _is_known(session, reported.name)
    model = find_or_create(session, reported.name, project, caller)
    notes = None if reported.description is None else storable(reported.description, MAX_TEXT_CHARS)
    if not reported.folder:
        if notes is not None or reported.tags or reported.removed_tags:
            patch = ModelPatch.model_construct(description=notes, tags=_tags(model.tags, reported))
            update_model(session, model.name, patch, caller)
        return 0, not is_known
    draft = Draft(
        source="outputs",
        source_uri=storable(reported.folder, 1000),
        message=f"Its files are those of trial {trial.address}, and are registered when it has ended.",
        contents=VersionContents(),
        lineage=lineage_of(session, trial, attempt_no=attempt_no, step=trial.step, now=now),
        metrics=latest_metrics(trial),
        signature=mlmodel.signature_of(reported.mlmodel),
        tags={},
        trial_id=trial.id,
        experiment_id=experiment.id,
        step=trial.step,
    )
    found = same_version(session, model, draft)
    version = found or number_version(session, model, draft, caller)
    version.tags = _tags(version.tags, reported)
    if notes is not None:
        version.notes = notes
    if reported.aliases is not None:
        _keep_aliases(session, model, version, reported.aliases, caller)
    version.updated_at = now
    return version.number, found is None


def _is_known(session: Session, name: str) -> bool:
    name = storable(name, 100)
    return session.scalar(select(ModelRow.id).where(ModelRow.name == name)) is not None


def _owner(session: Session, experiment: ExperimentRow) -> Principal:
    """Return whom the job acts for: a member, whatever else its owner may. Raises Forbidden."""
    owner = session.get(UserRow, experiment.owner_id) if experiment.owner_id else None
    if owner is None or not owner.may_act or owner.role not in ROLES:
        raise Forbidden(
            "models.not_yours",
            f"The owner of experiment {experiment.id} may not register models.",
        )
    return Principal(kind="user", name=owner.username, role="member", user_id=owner.id)


def _tags(known: dict[str, str], reported: ModelRegistrationRecord) -> dict[str, str]:
    tags = {k: v for k, v in known.items() if k not in reported.removed_tags}
    for key, value in reported.tags.items():
        tags[storable(key, TAG_MAX_CHARS)] = storable(value, TAG_VALUE_MAX_CHARS)
    return dict(list(tags.items())[:MAX_TAGS])


def _keep_aliases(
    session: Session,
    model: ModelRow,
    version: ModelVersionRow,
    wanted: list[str],
    caller: Caller,
) -> None:
    """Note what is to name a version that is being made. Raises Forbidden and InvalidRequest."""
    require_model(session, caller.principal, model)
    for alias in wanted:
        if not re.fullmatch(ALIAS_NAME, alias) or alias in aliases.RESERVED:
            raise InvalidRequest(
                "models.reserved_alias",
                f"{alias[:64]!r} cannot be an alias.",
                hint=f"An alias {ALIAS_NAME_RULE}, and is not latest.",
            )
    kept = {key: value for key, value in version.tags.items() if key != ALIASES_TAG}
    version.tags = kept | ({ALIASES_TAG: ",".join(wanted)} if wanted else {})


# ---------------------------------------------------------------- for the controller


def load_collected(session: Session, *, limit: int) -> list[int]:
    """Return the versions whose trials have ended, with all files in the storage: they can be made
    ready."""
    rows = session.execute(
        select(ModelVersionRow.id, ModelVersionRow.trial_id)
        .join(TrialRow, TrialRow.id == ModelVersionRow.trial_id)
        .where(
            ModelVersionRow.state == "making",
            ModelVersionRow.source == "outputs",
            TrialRow.state.in_(TERMINAL_TRIAL),
        )
        .order_by(ModelVersionRow.id)
    ).all()
    if not rows:
        return []
    waiting = set(uncollected(session, TrialRow.id.in_({row.trial_id for row in rows})))
    return [row.id for row in rows if row.trial_id not in waiting][:limit]


def settle(session: Session, version_id: int, *, now: dt.datetime) -> None:
    """Make a version ready whose files are in the storage, and let its aliases name it. One whose files
    are not there has failed. Raises Outdated if that was done meanwhile."""
    found = session.get(ModelVersionRow, version_id)
    if found is None:
        raise Outdated(f"version {version_id} is deleted")
    trial = session.get_one(TrialRow, found.trial_id)
    # The order in which registration locks them.
    experiment = session.get_one(ExperimentRow, trial.experiment_id, with_for_update=True)
    model = session.get_one(ModelRow, found.model_id, with_for_update=True)
    version = session.get(ModelVersionRow, version_id, with_for_update=True, populate_existing=True)
    if version is None or version.state != "making":
        raise Outdated(f"version {version_id} is made or deleted")
    try:
        contents = output_contents(session, trial, [version.source_uri])
    except InvalidRequest as error:
        fail_version(session, model, version, error.message.rstrip("."), now=now)
        return
    wanted = version.tags.get(ALIASES_TAG, "")
    version.tags = {key: value for key, value in version.tags.items() if key != ALIASES_TAG}
    settle_contents(session, version, contents, now=now)
    session.flush()
    for alias in filter(None, wanted.split(",")):
        try:
            caller = Caller(principal=_owner(session, experiment), now=now)
            require_model(session, caller.principal, model)
            aliases.move(
                session,
                model,
                alias,
                version,
                caller,
                by=caller.principal.actor,
                reason=f"set by trial {trial.address}",
            )
        except MusterError as error:
            add_event(
                session,
                "model.promotion",
                f"Alias {alias} of model {model.name} was not moved: {error.message}",
                now=now,
                level="warning",
                experiment_id=experiment.id,
                trial_id=trial.id,
                data={"model": model.name, "alias": alias, "state": "refused"},
            )
    touch(session, "models", f"model:{model.name}", "loops")
