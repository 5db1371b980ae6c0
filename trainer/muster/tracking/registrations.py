"""Models that a script registers within its job. A job has no access to the model registry, so they are
taken down, and a person is told how to make versions of them; the training does not fail over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import TrackingError, missing, no_endpoint
from .values import text_of

PATHS = ("/registered-models", "/model-versions")
VERSIONS_MAX = 1_000


class Registrations:
    """The registered models of one job, in memory."""

    def __init__(self, *, trial: str, warn: Callable[[str], None]) -> None:
        """Create an empty list.

        trial: the trial as commands name it, such as 12.1.
        warn: takes a sentence for the trial's events."""
        self._trial = trial
        self._warn = warn
        self._models: dict[str, list[dict[str, Any]]] = {}

    def answer(
        self, method: str, path: str, body: Mapping[str, Any], *, folder: str, now_ms: int
    ) -> dict[str, Any]:
        """Return the answer to a request. Raises TrackingError.

        folder: where the files of a new version are among the outputs; "" where that is not known.
        """
        match method, path:
            case "POST", "/registered-models/create":
                name = text_of(body, "name")
                if name in self._models:
                    raise TrackingError(
                        400, "RESOURCE_ALREADY_EXISTS", f"Registered Model (name={name}) exists."
                    )
                self._models[name] = []
            case "POST", "/model-versions/create":
                return {"model_version": self._version(body, folder, now_ms)}
            case "GET", "/model-versions/get":
                return {"model_version": self._found(body)}
            case "GET", "/model-versions/get-download-uri":
                return {"artifact_uri": self._found(body)["source"]}
            case ("GET" | "PATCH", "/registered-models/get" | "/registered-models/update"):
                name = text_of(body, "name")
            case ("PATCH", "/model-versions/update"):
                return {"model_version": self._found(body)}
            case ("POST", "/model-versions/set-tag" | "/registered-models/set-tag"):
                return {}
            case ("POST", "/registered-models/alias"):
                return {}
            case _:
                raise no_endpoint(method, f"/api/2.0/mlflow{path}")
        versions = self._of(name)
        return {"registered_model": {"name": name, "latest_versions": versions[-1:]}}

    def _of(self, name: str) -> list[dict[str, Any]]:
        if name not in self._models:
            raise missing(f"Registered Model with name={name[:250]} not found")
        return self._models[name]

    def _found(self, body: Mapping[str, Any]) -> dict[str, Any]:
        versions, number = self._of(text_of(body, "name")), str(body.get("version"))
        for version in versions:
            if version["version"] == number:
                return version
        raise missing(f"Model Version (version={number[:20]}) not found")

    def _version(self, body: Mapping[str, Any], folder: str, now_ms: int) -> dict[str, Any]:
        name = text_of(body, "name")
        versions = self._of(name)
        if len(versions) >= VERSIONS_MAX:
            raise missing(f"a job can register at most {VERSIONS_MAX} versions of a model")
        made = {
            "name": name,
            "version": str(len(versions) + 1),
            "creation_timestamp": now_ms,
            "last_updated_timestamp": now_ms,
            "source": str(body.get("source") or "")[:2_000],
            "run_id": str(body.get("run_id") or "")[:64],
            "status": "READY",
        }
        versions.append(made)
        where = f" {folder}" if folder else ""
        self._warn(
            f"The script registers the model {name!r}. A job has no access to the registry, so its files "
            f"are kept among the outputs. When the trial has ended, make a version of them: muster model "
            f"register {name} --outputs {self._trial}{where}"
        )
        return made
