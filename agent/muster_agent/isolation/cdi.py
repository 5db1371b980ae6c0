"""Descriptions of NVIDIA devices for the Container Device Interface, by which engines give them to
containers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


def cdi_files(folders: Iterable[str] = CDI_FOLDERS) -> Iterator[Path]:
    """Return the files of descriptions."""
    return (file for folder in folders for file in Path(folder).glob("*nvidia*"))


def undescribed(uuids: Iterable[str], *, folders: Iterable[str] = CDI_FOLDERS) -> list[str]:
    """Return the devices that no description names by UUID."""
    texts = []
    for file in cdi_files(folders):
        with contextlib.suppress(OSError):
            texts.append(file.read_text(errors="replace"))
    return [uuid for uuid in uuids if not any(uuid in text for text in texts)]
