"""`SummaryWriter` of torch and of tensorboardX: scalars, under the writer's tags.

Several writers may log one tag into folders of their own, as for training and validation. The first
keeps the tag as its name; of the others it follows the folder's: `validation/loss`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from muster.capture.reporting import before, guarded, report

ROUTE = "tensorboard"
MAX_TAGS = 10_000
"""Tags whose first writer is remembered."""

_folders: dict[str, str] = {}
"""Folder of the writer that was first to log a tag."""


def hook(module: ModuleType) -> None:
    before(module.SummaryWriter, "add_scalar", _add_scalar)
    before(module.SummaryWriter, "add_scalars", _add_scalars)


@guarded(ROUTE)
def _add_scalar(
    writer: Any, tag: str, scalar_value: Any, global_step: int | None = None, *_: Any, **__: Any
) -> None:
    report(ROUTE, {_name(writer, tag): scalar_value}, step=global_step)


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


def _name(writer: Any, tag: str) -> str:
    folder = str(getattr(writer, "logdir", None) or writer.log_dir)
    if len(_folders) < MAX_TAGS:
        _folders.setdefault(tag, folder)
    return tag if _folders.get(tag, folder) == folder else f"{Path(folder).name}/{tag}"
