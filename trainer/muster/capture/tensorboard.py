"""`SummaryWriter` of torch and of tensorboardX: scalars, under the writer's tags.

Several writers may log one tag into folders of their own, as for training and validation. The first
keeps the tag as its name; of the others it follows the folder's: `validation/loss`.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from muster.capture.reporting import before, guarded, report
from muster.sdk.reporter import current
from muster.tag_names import TagNames, is_placeholder

ROUTE = "tensorboard"
_names = TagNames()
_folders: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Folder of each writer, without links: resolving a path asks the file system once per folder in it."""

_written: set[str] = set()
"""Folders that a writer has logged into."""


def hook(module: ModuleType) -> None:
    before(module.FileWriter, "__init__", _open_writer)
    before(module.SummaryWriter, "add_scalar", _add_scalar)
    before(module.SummaryWriter, "add_scalars", _add_scalars)
    before(module.SummaryWriter, "add_hparams", _add_hparams)


@guarded(ROUTE)
def _add_scalar(
    writer: Any, tag: str, scalar_value: Any, global_step: int | None = None, *_: Any, **__: Any
) -> None:
    _report(writer, {tag: scalar_value}, global_step)


@guarded(ROUTE)
def _add_scalars(
    writer: Any,
    main_tag: str,
    tag_scalar_dict: Mapping[str, Any],
    global_step: int | None = None,
    *_: Any,
    **__: Any,
) -> None:
    main = _name(writer, main_tag)
    values = {f"{main}/{tag}": value for tag, value in tag_scalar_dict.items()}
    report(ROUTE, values, step=global_step)


@guarded(ROUTE)
def _add_hparams(
    writer: Any,
    hparam_dict: Any,
    metric_dict: Mapping[str, Any],
    *_: Any,
    global_step: int | None = None,
    **__: Any,
) -> None:
    # The writer puts them into a folder named by the time.
    _report(writer, metric_dict, global_step)


def _report(writer: Any, values: Mapping[str, Any], step: int | None) -> None:
    kept = {_name(writer, t): v for t, v in values.items() if not is_placeholder(t, v)}
    report(ROUTE, kept, step=step)


@guarded(ROUTE)
def _open_writer(writer: Any, *given: Any, **named: Any) -> None:
    """Tell the agent that the scalars of the files in this folder are captured here."""
    folder = given[0] if given else named.get("log_dir") or named["logdir"]
    current().captures_folder(os.path.realpath(folder))


def _name(writer: Any, tag: str) -> str:
    folder = _folders.get(writer)
    if folder is None:
        folder = os.path.realpath(getattr(writer, "logdir", None) or writer.log_dir)
        if folder in _written:
            # Writers of one second share a folder by default.
            current().is_reopened(ROUTE)
        _folders[writer] = folder
        _written.add(folder)
        goes_on_at = getattr(writer, "purge_step", None)
        if goes_on_at is not None:
            current().goes_back(ROUTE, int(goes_on_at))
    name = _names.name(folder, tag)
    for run in _names.runs:
        current().tell_child_run(run)
    return name
