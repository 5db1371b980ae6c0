"""Methods of the client for the model registry."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..connection import quoted
from ..errors import Refused
from ..waiting import Looks, waiting
from .records import RecordMethods

if TYPE_CHECKING:
    from .. import schema
    from ..models import Pulled


OnProgress = Callable[[str], None] | None


class ModelMethods(RecordMethods):
    """Register, judge, export, name and fetch versions of models."""

    def models(
        self, *, project: str | None = None, text: str | None = None
    ) -> list[schema.ModelItem]:
        """Return models by name. text: part of the name or the description."""
        return list(self.pages("/models", project=project, q=text))

    def model_versions(self, name: str) -> list[schema.ModelVersionItem]:
        """Return the versions of a model, newest first."""
        return list(self.pages(f"/models/{quoted(name)}/versions"))

    def model_version(self, reference: str) -> schema.ModelVersionOut:
        """Return a version with its files, lineage and card.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version.
        """
        from ..models import find_version

        return find_version(self, reference)

    def register_model(
        self,
        /,
        name: str,
        *,
        checkpoint_id: int | None = None,
        trial_id: int | None = None,
        paths: Sequence[str] = (),
        **more: Any,
    ) -> schema.ModelVersionOut:
        """Register a version from a checkpoint, or from outputs of a trial that has ended; the model is
        created if there is none. The same files once more are the same version.

        paths: files and folders of the outputs; without them, all. more: `notes`, `tags`, `signature`
            and `project`, as REST takes them.
        A version of the built-in trainer is ready when a node has read its checkpoint; see
        `wait_for_model`.
        """
        body: dict[str, Any] = {**more}
        if checkpoint_id is not None:
            body["checkpoint_id"] = checkpoint_id
        if trial_id is not None:
            body |= {"trial_id": trial_id, "paths": list(paths)}
        return self.post(f"/models/{quoted(name)}/versions", body, repeatable=True)

    def upload_model(
        self,
        /,
        name: str,
        source: str | os.PathLike[str],
        *,
        on_progress: OnProgress = None,
        **more: Any,
    ) -> schema.ModelVersionOut:
        """Upload a file, or a folder, as a new version. What has arrived already is not sent again.

        more: `notes`, `tags`, `signature`, `metrics` and `project`, as REST takes them.
        """
        from ..models import upload_files

        files = upload_files(self, Path(source), on_progress=on_progress)
        body = {"files": files, **more}
        return self.post(f"/models/{quoted(name)}/versions", body, repeatable=True)

    @waiting
    def wait_for_model(
        self, reference: str, *, timeout_s: float | None = None, poll_s: float = 0.5
    ) -> Looks[schema.ModelVersionOut]:
        """Return a version once it is ready. Raises TimeoutError, and Refused if it failed."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            version = self.model_version(reference)
            if version["state"] == "ready":
                return version
            if version["state"] == "failed":
                raise Refused(
                    f"Version {version['number']} of model {version['model']} failed: "
                    f"{version['message']}.",
                    code="models.not_ready",
                )
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"version {version['number']} is still being made")
            yield poll_s

    def evaluate_model(
        self,
        /,
        reference: str,
        *,
        data: str = "digits",
        split: str = "test",
        batch_size: int | None = None,
        code: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> schema.ExperimentDetail:
        """Submit a job that judges a version by the samples of a data set; return its experiment.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version. data: `digits`,
        `shakespeare`, `synthetic`, or `module:function` of the folder `code`. more: other sections of the
        document, such as `resources`. When it has ended, `model_uses` has the result.
        """
        section: dict[str, Any] = {"model": reference, "data": data, "split": split}
        if batch_size is not None:
            section["batch_size"] = batch_size
        document: dict[str, Any] = {"name": f"evaluate {reference}", "evaluate": section, **more}
        if code is not None:
            document.setdefault("code", {"path": "."})
        return self.submit(document, code=code)

    def model_uses(self, experiment_id: int) -> list[schema.ModelUseOut]:
        """Return the versions that an experiment uses, with what came of them."""
        return list(self.pages(f"/experiments/{experiment_id}/model-uses"))

    def model_leaderboards(self, data: str | None = None) -> list[schema.LeaderboardOut]:
        """Return the leaderboards of evaluated versions, that of the newest evaluation first.

        data: only of this data set. Only evaluations by the same samples, and the same code of the
        metrics, are in one leaderboard.
        """
        found: list[schema.LeaderboardOut] = self.call(
            "GET", "/models:leaderboards", params={"data": data}
        ).json()
        return found

    def model_lineage(self, reference: str) -> schema.ModelLineageOut:
        """Return what a version comes from, and what was done with it."""
        version = self.model_version(reference)
        return self.get(f"/models/{quoted(version['model'])}/versions/{version['number']}/lineage")

    def set_model_alias(
        self, name: str, alias: str, version: int, *, reason: str = ""
    ) -> schema.ModelAliasOut:
        """Let an alias name a version."""
        body = {"version": version, "reason": reason}
        return self.put(f"/models/{quoted(name)}/aliases/{quoted(alias)}", body)

    def delete_model_alias(self, name: str, alias: str, *, reason: str = "") -> None:
        """Remove an alias; its history stays."""
        self.delete(f"/models/{quoted(name)}/aliases/{quoted(alias)}", reason=reason)

    def model_history(
        self, name: str, *, alias: str | None = None
    ) -> list[schema.ModelAliasMoveOut]:
        """Return the moves of a model's aliases, newest first."""
        return list(self.pages(f"/models/{quoted(name)}/history", alias=alias))

    def promote_model(
        self,
        name: str,
        alias: str,
        experiment_id: int,
        *,
        metric: str | None = None,
        goal: Literal["min", "max"] | None = None,
    ) -> schema.ModelPromotionOut:
        """Let the best checkpoint of an experiment become an alias when it has ended, if it is better
        than what the alias names then. metric, goal: by default those of its search."""
        given = {"metric": metric, "goal": goal}
        body: dict[str, Any] = {"experiment_id": experiment_id, "alias": alias}
        body |= {key: value for key, value in given.items() if value is not None}
        return self.post(f"/models/{quoted(name)}/promotions", body, repeatable=True)

    def delete_model(self, reference: str, *, force: bool = False) -> None:
        """Delete a version ("NAME:3"), or a model with all its versions ("NAME").

        force: also what an alias names, which is removed.
        """
        name, _, number = reference.partition(":")
        path = f"/models/{quoted(name)}" + (f"/versions/{quoted(number)}" if number else "")
        self.delete(path, force=force)

    def export_model(
        self,
        /,
        reference: str,
        formats: Sequence[str],
        *,
        code: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> schema.ExperimentDetail:
        """Submit a job that exports a version; return its experiment.

        reference: "NAME:3", "NAME@production", or "NAME" for the newest version. formats: of
        `safetensors`, `hf`, `pt2` and `onnx`. code: folder with the functions that build the model and
        load its data, where they are your own. more: other sections of the document, such as
        `environment`. When it has ended, `pull_model` fetches an export with its `format`.
        """
        document: dict[str, Any] = {
            "name": f"export {reference}",
            "export": {"model": reference, "formats": list(formats)},
            "outputs": {"exclude": [".exporting/"]},  # what is not compared yet
            **more,
        }
        if code is not None:
            document.setdefault("code", {"path": "."})
        return self.submit(document, code=code)

    def model_exports(self, reference: str) -> list[schema.ModelExportJobOut]:
        """Return the jobs that export a version, newest first, each with its exports."""
        version = self.model_version(reference)
        return list(
            self.pages(f"/models/{quoted(version['model'])}/versions/{version['number']}/exports")
        )

    def pull_model(
        self,
        reference: str,
        folder: str | os.PathLike[str],
        *,
        force: bool = False,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int | None = None,
        format: str | None = None,
        on_progress: OnProgress = None,
    ) -> Pulled:
        """Fetch the files of a version into a folder, each verified by its digest. All of them appear
        there at once, or after an error none; an interrupted pull goes on where it was.

        force: replace files that are there with other content; without it, they raise.
        cache: folder in which files are kept for further pulls, at most `cache_bytes`.
        format: fetch its newest finished export in this format (`export_model`) instead. Those are
            not cached.
        """
        from ..models import pull, pull_export

        if format is not None:
            return pull_export(
                self, reference, Path(folder), format, force=force, on_progress=on_progress
            )
        place = None if cache is None else Path(cache)
        return pull(
            self,
            reference,
            Path(folder),
            force=force,
            cache=place,
            cache_bytes=cache_bytes,
            on_progress=on_progress,
        )
