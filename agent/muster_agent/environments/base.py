"""The interpreter of a node that an environment is laid over, and what is installed in it."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster_agent.environments.failures import BuildFailed

_TORCH = re.compile(r"(torch|torchvision|torchaudio|triton|nvidia[-_].*)", re.IGNORECASE)
"""Packages of the base that an environment must not install in another version beside it."""


_BASE_FACTS = """
import json, os, site, sys, sysconfig
paths = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
sites = [p for p in dict.fromkeys(paths) if os.path.isdir(p)]
print(json.dumps({"version": sys.version, "sites": sites, "platform": sysconfig.get_platform()}))
"""


@dataclass(frozen=True, kw_only=True)
class BaseInterpreter:
    python: str
    version: str
    platform: str
    sites: tuple[str, ...]
    """Folders of installed packages."""

    def metadata(self) -> Iterator[Path]:
        """Yield the metadata folder of each package; the first of several versions counts."""
        seen = set()
        for site in self.sites:
            for folder in sorted(Path(site).glob("*.dist-info")):
                name = folder.name.partition("-")[0].lower()
                if name not in seen:
                    seen.add(name)
                    yield folder

    def constraints(self) -> list[str]:
        """Return the versions of torch and what belongs to it, as requirements."""
        found = []
        for folder in self.metadata():
            name, _, version = folder.name.removesuffix(".dist-info").partition("-")
            if _TORCH.fullmatch(name):
                found.append(f"{name.replace('_', '-')}=={version}")
        return found


def read_base(python: str) -> BaseInterpreter:
    try:
        done = subprocess.run(
            [python, "-c", _BASE_FACTS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=True,
            cwd="/",
        )
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BuildFailed(
            f"the interpreter {python} does not run: {error}", fault="node"
        ) from error
    return BaseInterpreter(
        python=python,
        version=facts["version"],
        platform=facts["platform"],
        sites=tuple(facts["sites"]),
    )


def link_programs(base: BaseInterpreter, path: Path) -> None:
    """Write the console scripts of the base's packages that the environment has not replaced: those
    of the base run in the base, without what is installed here."""
    python = path / "bin" / "python"
    for metadata in path.glob("lib/python3*/site-packages/*.dist-info"):
        installer = metadata / "INSTALLER"
        if not installer.exists() or installer.read_text() != "muster-base":
            continue
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign] # names keep their case
        with contextlib.suppress(OSError, configparser.Error):
            parser.read(metadata / "entry_points.txt")
        if not parser.has_section("console_scripts"):
            continue
        for name, value in parser.items("console_scripts"):
            module, _, function = value.partition("[")[0].strip().partition(":")
            program = path / "bin" / name
            if program.exists() or not function or "/" in name:
                continue
            first = function.partition(".")[0]
            program.write_text(
                f"#!/bin/sh\n'''exec' {shlex.quote(str(python))} \"$0\" \"$@\"\n' '''\n"
                f"import sys\nfrom {module} import {first}\nsys.exit({function}())\n"
            )
            program.chmod(0o755)
