"""What is built or made for a job before it starts, behind its walls: its environment, and data sets."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster import wire
from muster.document.running import DataSection
from muster.launch.variables import expand
from muster_agent.environments.build import BuildWalls, Built, DataCache, EnvironmentCache
from muster_agent.environments.failures import BuildFailed
from muster_agent.isolation.walls import (
    Isolation,
    hand_over,
    inside,
    make_home,
    open_way,
    prefixes_of,
)
from muster_agent.jobs.folder import AllocationFolder, ShimOptions
from muster_agent.jobs.inputs import data_of, variable_of
from muster_agent.jobs.launch import environment_of
from muster_agent.jobs.process import OWNER_VARIABLE, TOKEN_VARIABLE
from muster_agent.records.logs import launcher_log
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation.kept_data import KeptData, keep


@dataclass(frozen=True)
class Building:
    """What is built or made for a job behind its walls."""

    spec: wire.AllocationSpec
    options: ShimOptions
    folder: AllocationFolder
    root: Path
    work_dir: Path
    is_canceled: Callable[[], bool]

    def environment(self, python: str, inherited: Mapping[str, str]) -> Built:
        """Build the environment that the document asks for over `python`, or find it built."""
        isolation = self._isolation
        cache = EnvironmentCache(
            Path(self.options.environments),
            limit_bytes=self.options.environments_limit_bytes,
            project_id=self.spec.project_id,
            walls=_walls_of_build(self.spec, isolation, self.root),
        )
        of_user, variables = self._variables(inherited, {})
        if isolation.is_on and "UV_CACHE_DIR" not in of_user:
            variables.pop("UV_CACHE_DIR", None)  # The agent's own cache is not the project's.
        if isolation.is_on:
            # The cache lies on another mount, from which nothing can be linked.
            variables = {"UV_LINK_MODE": "copy", **variables}
        with _as_failed_preparation():
            return cache.open(
                environment_of(self.spec),
                uv=self.options.uv,
                python=python,
                code=self.work_dir,
                code_id=_code_id(self.spec, self.work_dir.relative_to(self.root)),
                environment=variables,
                builder_environment={**inherited, **self._marks},
                log=launcher_log(self.folder.logs, "stdout"),
                is_canceled=self.is_canceled,
            )

    def data(
        self,
        sections: Mapping[str, DataSection],
        read: Mapping[str, wire.DataRead],
        python: str,
        inherited: Mapping[str, str],
        secrets: Mapping[str, str],
        below: Sequence[Path],
    ) -> KeptData:
        """Fetch or make the data sets that this node keeps, or find them here.

        read: those that lie here already. below: folders of the interpreter below that of the job.
        """
        if not any(section.is_kept for section in sections.values()):
            return KeptData()
        isolation = self._isolation
        walls = _walls_of_build(self.spec, isolation, self.root)
        named = [Path(one.folder) for one in sections.values() if one.folder is not None]
        programs = prefixes_of(python) if isolation.container is None else []
        cache = DataCache(
            Path(self.options.environments).with_name("data"),
            limit_bytes=self.options.data_limit_bytes,
            project_id=self.spec.project_id,
            walls=dataclasses.replace(walls, read=(*walls.read, *programs, *below, *named)),
        )
        places = {variable_of(n): where for n, where in data_of(self.spec).items()}
        _, variables = self._variables(inherited, places)
        with _as_failed_preparation():
            return keep(
                sections,
                read,
                cache,
                python=python,
                code=self.work_dir,
                environment={**variables, **secrets},
                builder_environment={**inherited, **self._marks},
                min_free_bytes=self.options.min_disk_free_bytes,
                log=launcher_log(self.folder.logs, "stdout"),
                is_canceled=self.is_canceled,
            )

    @property
    def _isolation(self) -> Isolation:
        return _with_network(self.options.isolation)

    @property
    def _marks(self) -> dict[str, str]:
        return {TOKEN_VARIABLE: self.spec.allocation_id, OWNER_VARIABLE: self.folder.owner}

    def _variables(
        self, inherited: Mapping[str, str], more: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the document's variables, and all that commands of the document see."""
        of_user = {
            name: expand(value, inherited, itself=name)
            for name, value in self.spec.environment.items()
        }
        variables = {**inherited, **of_user, **self._marks, **more}
        if not self.options.isolation.is_on:
            return of_user, variables
        return of_user, inside(self.options.isolation, variables, of_user=of_user)


@contextlib.contextmanager
def _as_failed_preparation() -> Iterator[None]:
    try:
        yield
    except BuildFailed as error:
        is_nodes = error.fault == "node"
        raise PrepareFailed(
            str(error), blames="node" if is_nodes else "document", passes=is_nodes
        ) from error


def _code_id(spec: wire.AllocationSpec, folder: Path) -> str:
    """Return what identifies the content of a folder of the uploaded code; "" for installed code."""
    if spec.code.kind != "bundle":
        return ""
    return spec.code.sha256 if folder == Path() else f"{spec.code.sha256}/{folder}"


def _with_network(isolation: Isolation) -> Isolation:
    """Return the walls with the host's network, from which packages are installed, also around a job
    that has none in its container."""
    if isolation.container is None:
        return isolation
    container = dataclasses.replace(isolation.container, network="host")
    return dataclasses.replace(isolation, container=container)


def _walls_of_build(spec: wire.AllocationSpec, isolation: Isolation, root: Path) -> BuildWalls:
    """Return the walls around a build of a job's environment: it may write the trial's files, as the
    job may, and the home folder of the project."""
    if not isolation.is_on:
        return BuildWalls(isolation=isolation)
    make_home(isolation)
    home = (Path(isolation.home),) if isolation.home else ()
    if spec.code.kind == "installed":
        return BuildWalls(isolation=isolation, read=(root,), write=home)
    if isolation.uid is not None:
        hand_over([root], isolation.uid)
    open_way(isolation, root.parent)
    return BuildWalls(isolation=isolation, write=(root, *home))
