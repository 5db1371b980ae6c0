"""Processes of a job that train without being measured, because their Python does not find us."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from muster.launch.variables import PATH_VARIABLE, SITE_FILE
from muster_agent.jobs.process import Identity

_PYTHON = re.compile(r"python[0-9.]*")
_TORCH = re.compile(rb"(/\S+)/torch/lib/libtorch_cpu\S*$", re.MULTILINE)


def why_unmeasured(
    argv: Sequence[str], environment: Mapping[str, str], sites: Collection[str]
) -> str:
    """Return why a process of Python is not measured, as one clause; "" if it is, or is no Python.

    sites: folders of packages that have our site file, by which Python finds us without PYTHONPATH.
    """
    wanted = environment.get(PATH_VARIABLE, "").partition(os.pathsep)[0]
    if not wanted or not argv or not _PYTHON.fullmatch(Path(argv[0]).name):
        return ""
    flags = {letter for word in _options(argv[1:]) for letter in word[1:]}
    if "S" in flags:
        return "python -S imports nothing from outside the script"
    if sites:
        return ""
    if flags & {"I", "E"}:
        return "python -I and -E ignore PYTHONPATH"
    if wanted not in environment.get("PYTHONPATH", "").split(os.pathsep):
        return "PYTHONPATH was replaced: export PYTHONPATH=FOLDER:$PYTHONPATH keeps Muster's folder"
    return ""


def find_unmeasured(processes: Iterable[Identity]) -> str:
    """Return what to say of the first of these processes that uses torch and is not measured; "" if
    there is none."""
    for identity in processes:
        folder = Path(f"/proc/{identity.pid}")
        with contextlib.suppress(OSError, ValueError):
            argv = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
            pairs = (folder / "environ").read_text(errors="replace").split("\0")
            environment = dict(pair.partition("=")[::2] for pair in pairs if "=" in pair)
            if not why_unmeasured(argv, environment, ()):
                continue
            found = _TORCH.search((folder / "maps").read_bytes())
            if found is None:
                continue
            python = shutil.which(argv[0], path=environment.get("PATH", os.defpath)) or "/"
            prefix = Path(python).parent.parent
            places = [os.fsdecode(found[1]), *map(str, prefix.glob("lib/python3*/site-packages"))]
            sites = [
                place for place in places if (folder / "root" / place[1:] / SITE_FILE).exists()
            ]
            if why := why_unmeasured(argv, environment, sites):
                shown = " ".join(argv)
                shown = shown if len(shown) <= 60 else shown[:59] + "…"
                return f"The steps of `{shown}` are not measured: {why}"
    return ""


def _options(arguments: Sequence[str]) -> Iterable[str]:
    """Yield the options of Python itself, which precede the script."""
    for word in arguments:
        if not word.startswith("-") or word.startswith("--") or word[1:2] in ("c", "m", ""):
            return
        if word[1] not in "WX":
            yield word
