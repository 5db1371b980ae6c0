"""Builds the dashboard into a wheel or an sdist when it is not there yet.

Hatch runs this hook. An editable install needs no dashboard: `scripts/bootstrap.py`, or
`npm run build`, makes it in place later. The dashboard contains pages that are made from the code,
so the build needs what the code imports. The types of the client's answers are made with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INDEX = Path("server/muster_server/static/index.html")
BUILD_IT = "cd frontend && npm ci && npm run build"
SBOMS = "build/sboms/*.cdx.json"
"""Written by scripts/release into the tree that it builds from; other builds have none."""
EXTRAS = ("server", "cli")
"""What the code needs whose pages are made (scripts/generate.py)."""


class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "dashboard"

    def dependencies(self) -> list[str]:
        """What has to be installed for the build; nothing where the dashboard is there."""
        if (Path(self.root) / INDEX).exists():
            return []
        extras = self.metadata.core.optional_dependencies
        return [requirement for extra in EXTRAS for requirement in extras[extra]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Ends the build with a sentence where the dashboard is missing and cannot be built."""
        root = Path(self.root)
        if self.target_name == "wheel" and version != "editable":
            sboms = sorted(root.glob(SBOMS))
            build_data["sbom_files"] = [path.relative_to(root).as_posix() for path in sboms]
        if version == "editable" or (root / INDEX).exists():
            return
        npm = shutil.which("npm")
        frontend = root / "frontend"
        if npm is None or not (frontend / "package-lock.json").exists():
            self.app.abort(
                f"The dashboard is not built: there is no {INDEX}, and no npm to build it with. "
                f"Install Node.js 22.22 or later and build again, or run `{BUILD_IT}` first. "
                "HATCH_BUILD_NO_HOOKS=true leaves the dashboard out on purpose."
            )
        steps = [["run", "build"]]
        if not (frontend / "node_modules").is_dir():
            steps.insert(0, ["ci", "--no-audit", "--no-fund"])
        for step in steps:
            done = subprocess.run(
                [str(npm), *step],
                cwd=frontend,
                env={**os.environ, "PYTHON": sys.executable},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                last = "\n".join(done.stdout.splitlines()[-20:])
                self.app.abort(
                    f"The dashboard cannot be built: `npm {' '.join(step)}` ended with "
                    f"{done.returncode}.\n{last}"
                )
        if not (root / INDEX).exists():
            self.app.abort(f"`npm run build` has not written {INDEX}.")
