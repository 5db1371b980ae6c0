"""Models that a script registers within its job, as its MLflow client sees them.

The server keeps them: what the script asks for goes to it with the job's other reports, and the number of a
version comes back from it. The files of a version can be read in the job at once, so a version is READY.
While the server cannot be reached a version has no number yet and is shown as version 0, because a client
that is answered PENDING_REGISTRATION would wait for minutes and then end the script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.wire import ModelRegistration, ModelRegistrationRecord

from .errors import TrackingError, invalid, missing, no_endpoint
from .registry import NO_PROMPT, RegistryItem, pairs, searched
from .values import items_of, key_of, listed, pair_of, text_of

REGISTRATIONS_MAX = 5_000
"""Most requests of one job that change something."""
TAGS_MAX = 50
_UNSEEN = "a job sees the models and versions that it registers itself"
_UNREACHED = "The server cannot be reached: the version gets its number, and is in the registry, when it can be"
_LATER = (
    "Its files are in the registry when the trial has ended; within the job they can be read now"
)

Body = Mapping[str, Any]


@dataclass(frozen=True)
class VersionSource:
    """What a version is made of."""

    artifacts: str
    """Address of its files for MLflow's client."""
    folder: str
    """The folder among the trial's outputs."""
    mlmodel: str = ""
    """Content of the file MLmodel there."""


@dataclass
class _Version:
    name: str
    source: VersionSource
    given: str
    """Address that the script has given."""
    run_id: str
    created_ms: int
    number: int = 0
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    aliases: list[str] = field(default_factory=list)
    updated_ms: int = 0

    def shown(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": str(self.number),
            "creation_timestamp": self.created_ms,
            "last_updated_timestamp": self.updated_ms,
            "current_stage": "None",
            "description": self.description,
            "source": self.given,
            "run_id": self.run_id,
            "status": "READY",
            "status_message": _LATER if self.number else _UNREACHED,
            "tags": pairs(self.tags),
            "aliases": list(self.aliases),
        }

    @property
    def item(self) -> RegistryItem:
        fields = {
            "name": self.name,
            "version_number": self.number,
            "run_id": self.run_id,
            "source_path": self.given,
            "creation_timestamp": self.created_ms,
            "last_updated_timestamp": self.updated_ms,
        }
        return RegistryItem(self, NO_PROMPT | self.tags, fields)


@dataclass
class _Model:
    name: str
    created_ms: int
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    versions: list[_Version] = field(default_factory=list)
    updated_ms: int = 0

    def shown(self) -> dict[str, Any]:
        named = [
            {"alias": alias, "version": str(version.number)}
            for version in self.versions
            for alias in version.aliases
        ]
        return {
            "name": self.name,
            "creation_timestamp": self.created_ms,
            "last_updated_timestamp": self.updated_ms,
            "description": self.description,
            "latest_versions": [version.shown() for version in self.versions[-1:]],
            "tags": pairs(self.tags),
            "aliases": named,
        }


class Registrations:
    """The registered models of one job, in memory."""

    def __init__(
        self,
        *,
        send: Callable[[ModelRegistrationRecord], None],
        find: Callable[[str], VersionSource],
    ) -> None:
        """Create an empty registry.

        send: takes what the server is to do.
        find: returns what the source of a version means, or raises TrackingError."""
        self._send = send
        self._find = find
        self._models: dict[str, _Model] = {}
        self._asked: dict[int, _Model | _Version] = {}
        """What was asked of the server, by the number of the record."""
        self._answers: dict[int, ModelRegistration] = {}

    def is_answered(self, no: int) -> bool:
        """Return whether the server has answered a record."""
        return no in self._answers

    def take(self, answer: ModelRegistration) -> None:
        """Take what came of a record."""
        self._answers[answer.no] = answer
        found = self._asked.get(answer.no)
        if not isinstance(found, _Version) or found.number:
            return
        if not answer.error:
            found.number = answer.version
        elif found in (kept := self._of(found)):
            kept.remove(found)

    def ask(
        self, method: str, call: tuple[str, str], body: Body, *, now_ms: int
    ) -> tuple[int, Callable[[], dict[str, Any]]]:
        """Carry out a request. Return the number of the record whose answer it needs, 0 for none, and
        what returns the answer of the request, or raises TrackingError, once that has come or nobody
        wants to wait any more. Raises TrackingError."""
        do = _CALLS.get((method, *call))
        if do is None:
            raise no_endpoint(method, f"/api/2.0/mlflow/{'/'.join(call)}")
        return do(self, body, now_ms)

    # ------------------------------------------------------------ models

    def _create_model(self, body: Body, now_ms: int) -> Asked:
        name, tags = text_of(body, "name"), _tags(body)
        if name in self._models:
            raise _exists(name)
        model = _Model(name, now_ms, _description(body) or "", tags, updated_ms=now_ms)
        no = self._ask(model, description=_description(body), tags=tags)

        def shown() -> dict[str, Any]:
            is_new = self._check(no).is_new
            self._models.setdefault(name, model)
            if not is_new:
                raise _exists(name)
            return {"registered_model": model.shown()}

        return no, shown

    def _get_model(self, body: Body, now_ms: int) -> Asked:
        name = text_of(body, "name")
        if name in self._models:
            return 0, lambda: {"registered_model": self._models[name].shown()}
        model = _Model(name, 0)
        no = self._ask(model, is_lookup=True)

        def shown() -> dict[str, Any]:
            if no not in self._answers or self._answers[no].is_new:
                raise missing(f"Registered Model with name={name} not found")
            return {"registered_model": model.shown()}

        return no, shown

    def _update_model(self, body: Body, now_ms: int) -> Asked:
        return self._changed(self._model(body), now_ms, description=_description(body) or "")

    def _set_model_tag(self, body: Body, now_ms: int) -> Asked:
        return self._changed(self._model(body), now_ms, tags=dict([pair_of(body, "tag")]))

    def _delete_model_tag(self, body: Body, now_ms: int) -> Asked:
        return self._changed(self._model(body), now_ms, removed_tags=[key_of(body, "tag")])

    def _search_models(self, body: Body, now_ms: int) -> Asked:
        found = [
            RegistryItem(model, NO_PROMPT | model.tags, {"name": model.name})
            for model in self._models.values()
        ]
        return 0, lambda: _page("registered_models", found, body)

    def _latest_versions(self, body: Body, now_ms: int) -> Asked:
        if listed(body.get("stages")) not in ([], ["None"]):
            raise invalid("Muster has no stages: let an alias name the version instead")
        newest = self._model(body).versions[-1:]
        return 0, lambda: {"model_versions": [version.shown() for version in newest]}

    # ------------------------------------------------------------ versions

    def _create_version(self, body: Body, now_ms: int) -> Asked:
        model = self._models.get(text_of(body, "name")) or _Model(text_of(body, "name"), now_ms)
        source = self._find(text_of(body, "source", max_chars=2_000))
        tags, description = _tags(body), _description(body)
        # The same files of the same run are one version.
        version = next((v for v in model.versions if v.source.folder == source.folder), None)
        if version is None:
            version = _Version(
                model.name,
                source,
                given=str(body["source"]),
                run_id=str(body.get("run_id") or "")[:64],
                created_ms=now_ms,
                updated_ms=now_ms,
            )
        model.versions += [] if version in model.versions else [version]
        self._models[model.name] = model
        change: dict[str, Any] = {} if description is None else {"description": description}
        no, done = self._changed(version, now_ms, tags=tags, **change)
        return no, lambda: done() or {"model_version": version.shown()}

    def _get_version(self, body: Body, now_ms: int) -> Asked:
        version = self._version(body)
        return 0, lambda: {"model_version": version.shown()}

    def _update_version(self, body: Body, now_ms: int) -> Asked:
        version = self._version(body)
        no, done = self._changed(version, now_ms, description=_description(body) or "")
        return no, lambda: done() or {"model_version": version.shown()}

    def _download_uri(self, body: Body, now_ms: int) -> Asked:
        version = self._version(body)
        return 0, lambda: {"artifact_uri": version.source.artifacts}

    def _set_version_tag(self, body: Body, now_ms: int) -> Asked:
        return self._changed(self._version(body), now_ms, tags=dict([pair_of(body, "tag")]))

    def _delete_version_tag(self, body: Body, now_ms: int) -> Asked:
        return self._changed(self._version(body), now_ms, removed_tags=[key_of(body, "tag")])

    def _search_versions(self, body: Body, now_ms: int) -> Asked:
        found = [v.item for model in self._models.values() for v in reversed(model.versions)]
        return 0, lambda: _page("model_versions", found, body)

    # ------------------------------------------------------------ aliases

    def _set_alias(self, body: Body, now_ms: int) -> Asked:
        alias, version = text_of(body, "alias"), self._version(body)
        before = next((v for v in self._of(version) if alias in v.aliases), None)
        if before is version:
            return 0, dict
        no, done = self._changed(version, now_ms, aliases=[*version.aliases, alias])

        def shown() -> dict[str, Any]:
            answer = done()
            if before is not None:  # An alias names one version.
                before.aliases.remove(alias)
                self._ask(before, aliases=list(before.aliases))
            return answer

        return no, shown

    def _get_alias(self, body: Body, now_ms: int) -> Asked:
        version = self._named(body)
        return 0, lambda: {"model_version": version.shown()}

    def _delete_alias(self, body: Body, now_ms: int) -> Asked:
        version, alias = self._named(body), text_of(body, "alias")
        left = [each for each in version.aliases if each != alias]
        return self._changed(version, now_ms, aliases=left)

    # ------------------------------------------------------------ helpers

    def _ask(self, of: _Model | _Version, **change: Any) -> int:
        if len(self._asked) >= REGISTRATIONS_MAX:
            raise invalid(f"a job can change models at most {REGISTRATIONS_MAX:,} times")
        no = len(self._asked) + 1
        self._asked[no] = of
        if isinstance(of, _Version):
            change |= {"folder": of.source.folder, "mlmodel": of.source.mlmodel}
        self._send(ModelRegistrationRecord(no=no, name=of.name, **change))
        return no

    def _changed(self, of: _Model | _Version, now_ms: int, **change: Any) -> Asked:
        """Change a model or version, which is seen once the server has not refused it."""
        if len(of.tags.keys() | change.get("tags", {}).keys()) > TAGS_MAX:
            raise invalid(f"at most {TAGS_MAX} tags are possible")
        no = self._ask(of, **change)

        def shown() -> dict[str, Any]:
            self._check(no)
            of.updated_ms = now_ms
            of.description = change.get("description", of.description)
            of.tags = {k: v for k, v in of.tags.items() if k not in change.get("removed_tags", ())}
            of.tags |= change.get("tags", {})
            if isinstance(of, _Version):
                of.aliases = change.get("aliases", of.aliases)
            return {"registered_model": of.shown()} if isinstance(of, _Model) else {}

        return no, shown

    def _check(self, no: int) -> ModelRegistration:
        """Return the answer to a record; that all went well where none has come. Raises
        TrackingError."""
        answer = self._answers.get(no, ModelRegistration(no=no, is_new=True))
        if answer.error:
            raise invalid(answer.error)
        return answer

    def _of(self, version: _Version) -> list[_Version]:
        return self._models[version.name].versions

    def _model(self, body: Body) -> _Model:
        name = text_of(body, "name")
        if name not in self._models:
            raise missing(f"Registered Model with name={name} not found: {_UNSEEN}")
        return self._models[name]

    def _version(self, body: Body) -> _Version:
        model, number = self._model(body), str(body.get("version"))
        for version in reversed(model.versions):
            if str(version.number) == number:
                return version
        raise missing(
            f"Model Version (name={model.name}, version={number[:20]}) not found: {_UNSEEN}"
        )

    def _named(self, body: Body) -> _Version:
        model, alias = self._model(body), text_of(body, "alias")
        for version in model.versions:
            if alias in version.aliases:
                return version
        raise missing(f"Registered model alias {alias} not found: {_UNSEEN}")


Asked = tuple[int, Callable[[], dict[str, Any]]]


def _exists(name: str) -> TrackingError:
    return TrackingError(
        400, "RESOURCE_ALREADY_EXISTS", f"Registered Model (name={name}) already exists."
    )


def _description(body: Body) -> str | None:
    text = body.get("description")
    return None if text is None else str(text)


def _tags(body: Body) -> dict[str, str]:
    return dict(pair_of(item, "tag") for item in items_of(body, "tags", TAGS_MAX))


def _page(name: str, found: list[RegistryItem], body: Body) -> dict[str, Any]:
    page, token = searched(found, body)
    answer: dict[str, Any] = {name: [item.row.shown() for item in page]}
    return {**answer, "next_page_token": token} if token else answer


_R, _V = "registered-models", "model-versions"
_CALLS: dict[tuple[str, str, str], Callable[[Registrations, Body, int], Asked]] = {
    ("POST", _R, "create"): Registrations._create_model,
    ("GET", _R, "get"): Registrations._get_model,
    ("PATCH", _R, "update"): Registrations._update_model,
    ("GET", _R, "search"): Registrations._search_models,
    ("POST", _R, "search"): Registrations._search_models,
    ("GET", _R, "get-latest-versions"): Registrations._latest_versions,
    ("POST", _R, "get-latest-versions"): Registrations._latest_versions,
    ("POST", _R, "set-tag"): Registrations._set_model_tag,
    ("DELETE", _R, "delete-tag"): Registrations._delete_model_tag,
    ("POST", _R, "alias"): Registrations._set_alias,
    ("GET", _R, "alias"): Registrations._get_alias,
    ("DELETE", _R, "alias"): Registrations._delete_alias,
    ("POST", _V, "create"): Registrations._create_version,
    ("GET", _V, "get"): Registrations._get_version,
    ("PATCH", _V, "update"): Registrations._update_version,
    ("GET", _V, "search"): Registrations._search_versions,
    ("POST", _V, "search"): Registrations._search_versions,
    ("GET", _V, "get-download-uri"): Registrations._download_uri,
    ("POST", _V, "set-tag"): Registrations._set_version_tag,
    ("DELETE", _V, "delete-tag"): Registrations._delete_version_tag,
}
