"""Checks that need more than one field. Each names the path to change."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from muster.adoption import PATTERN_EXAMPLES, NoCheckpointPattern, parse
from muster.byte_sizes import SIZE_EXAMPLES, parse_size
from muster.document import strategy_rules as rules
from muster.document.experiment import ExperimentConfig
from muster.document.inference import PROGRAMS
from muster.document.roles import images_of
from muster.document.running import (
    DataSection,
    EnvironmentSection,
    KeepOutputsSection,
    ResourcesSection,
    is_requirements_file,
)
from muster.document.searching import UNITS
from muster.durations import duration_s
from muster.launch.variables import is_replaced, not_replaced
from muster.log_values import BadLogPattern, LogPattern
from muster_server.domain.durations import (
    DURATION_EXAMPLES,
    EXAMPLES,
    InvalidMoment,
    parse_deadline,
    parse_duration,
)
from muster_server.domain.messages import Message
from muster_server.domain.search import sampling
from muster_server.errors import FieldProblem

from . import roles
from .entrypoints import check_launcher
from .guards import check_guards
from .inference import check_models, job_functions
from .recipes import check_trainer, has_own_functions, shape_of
from .searching import check_search

_NOT_ELEMENTS = frozenset({"PATH", "HOME", "PYTHONPATH", "TMPDIR", "USER", "VIRTUAL_ENV"})
"""Variables that a job cannot do without, so that no element of an array takes their names."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_PREFIXES = ("MUSTER_", "TORCHELASTIC_", "TORCH_NCCL_ASYNC_")
RESERVED_VARIABLES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "NODE_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "ROLE_NAME",
        "MASTER_ADDR",
        "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES",
        "LD_PRELOAD",
        "LD_AUDIT",
    }
)


def is_reserved(name: str) -> bool:
    """Return whether a document may not set the environment variable of this name."""
    return name in RESERVED_VARIABLES or name.startswith(RESERVED_PREFIXES)


def check(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> list[FieldProblem]:
    """Return every cross-field problem of a document whose fields are valid one by one."""
    return [
        *_what_runs(document),
        *check_models(document, parameters),
        *check_launcher(document),
        *roles.check(document),
        *_resources(document),
        *_strategy(document),
        *_lengths(document),
        *check_search(document, parameters),
        *_storage(document),
        *_limits(document),
        *_outputs(document),
        *_adopt(document),
        *_log_patterns(document),
        *_variables(document),
        *_array(document),
        *_environment(document),
        *_data(document),
        *_budget(document),
        *_from(document),
        *_guards(document, parameters),
        *check_trainer(document, parameters),
    ]


def _what_runs(document: ExperimentConfig) -> Iterator[FieldProblem]:
    if document.search.runner == "external":
        for field in ("entrypoint", "roles", "trainer", *PROGRAMS, "models", "code"):
            if getattr(document, field) not in (None, {}):
                yield FieldProblem(
                    field,
                    Message("field.no_effect", other="search.runner: external"),
                    "leave it out, or use runner: cluster",
                )
        return
    if document.entrypoint is not None and document.trainer is not None:
        yield FieldProblem(
            "trainer",
            Message("field.beside", other="entrypoint"),
            "keep one: your own code, or the built-in trainer",
        )
    others = [name for name in ("entrypoint", "trainer") if getattr(document, name) is not None]
    named = [*others, *(name for name in PROGRAMS if getattr(document, name) is not None)]
    for name in named[max(1, len(others)) :]:
        yield FieldProblem(
            name, Message("field.beside", other=named[0]), f"keep one: {named[0]} or {name}"
        )
    if not named and not document.roles:
        yield FieldProblem(
            "entrypoint",
            Message("field.missing_entrypoint"),
            "add `entrypoint: train.py`, or `trainer: {model: mlp, data: digits}`",
        )
    code = document.code
    if code is None:
        if job_functions(document) or (
            document.trainer is not None and has_own_functions(document.trainer)
        ):
            yield FieldProblem(
                "code",
                Message("field.missing_functions"),
                "add `code: {path: .}`",
            )
        return
    if document.trainer is not None and not has_own_functions(document.trainer):
        yield FieldProblem(
            "code",
            Message("field.no_effect_built_in"),
            "leave it out, or name a function of it: `model: module:function`",
        )
    if code.path is not None and code.installed is not None:
        yield FieldProblem("code", "has both path and installed", "keep one of them")
    if code.include and code.installed is not None:
        yield FieldProblem(
            "code.include",
            Message("field.no_effect", other="code.installed"),
            "leave it out: nothing is uploaded",
        )
    if code.workdir is not None and not document.entrypoints and document.session is None:
        yield FieldProblem("code.workdir", "has no effect without an entry point", "leave it out")
    elif code.within(".").split("/")[0] == "..":
        yield FieldProblem(
            "code.workdir", "the folder must lie inside the code folder", "leave out '..'"
        )
    is_default = bool(document.entrypoints) and bool(code.include or code.workdir)
    if code.path is None and code.installed is None and not is_default:
        yield FieldProblem(
            "code", Message("field.empty"), "write {path: .} or {installed: /folder}"
        )


def _array(document: ExperimentConfig) -> Iterator[FieldProblem]:
    environment = document.environment
    for name in document.array:
        if is_reserved(name) or name in _NOT_ELEMENTS:
            yield FieldProblem(
                f"array.{name}",
                "is the name of a variable that every job has",
                "choose another, for example i",
            )
        elif name in environment.variables or name in environment.secrets:
            yield FieldProblem(
                f"array.{name}",
                "is set in the section environment as well",
                "choose another name, for example i",
            )
    if document.array and document.search.runner == "external":
        yield FieldProblem(
            "array",
            Message("field.no_effect", other="search.runner: external"),
            "leave one of them out",
        )


def _resources(document: ExperimentConfig) -> Iterator[FieldProblem]:
    resources, nodes = document.resources, document.resources.nodes
    if nodes is not None:
        if resources.slots < nodes:
            yield FieldProblem(
                "resources.slots",
                f"{resources.slots} slots are too few for {nodes} nodes",
                f"use at least {nodes} slots, or leave nodes out",
            )
        elif resources.slots % nodes and not resources.uneven:
            near = max(resources.slots // nodes, 1) * nodes
            yield FieldProblem(
                "resources.slots",
                f"{resources.slots} slots cannot be divided evenly over {nodes} nodes",
                f"use {near} or {near + nodes} slots, allow uneven: true, or leave nodes out",
            )
        if resources.max_nodes is not None and resources.max_nodes < nodes:
            yield FieldProblem(
                "resources.max_nodes",
                f"is {resources.max_nodes}, but resources.nodes asks for {nodes}",
                "leave max_nodes out",
            )
    yield from _elastic(resources)
    yield from _min_runtime(resources)
    yield from _where(resources)


_STORE = re.compile(r"(s3|gs)://[A-Za-z0-9][A-Za-z0-9._-]{1,221}(/[A-Za-z0-9._=-]+)*/?")


def _storage(document: ExperimentConfig) -> Iterator[FieldProblem]:
    storage = document.checkpoints.storage
    if storage == "local" or (_STORE.fullmatch(storage) and "/../" not in f"{storage}/"):
        return
    example = "write local, s3://bucket/folder or gs://bucket/folder"
    if "@" in storage or "?" in storage:
        # Not repeated: what stands there may be a secret.
        yield FieldProblem(
            "checkpoints.storage",
            "holds more than a bucket and a folder",
            f"{example}; credentials belong into the environment of the nodes",
        )
    else:
        yield FieldProblem("checkpoints.storage", f"{storage!r} is no storage", example)


def _strategy(document: ExperimentConfig) -> Iterator[FieldProblem]:
    resources = document.resources
    for problem in rules.problems(
        document.strategy,
        slots=resources.slots,
        min_slots=resources.min_slots,
        slot_type=resources.slot_type,
        shape=shape_of(document),
    ):
        yield FieldProblem(problem.path, problem.message, problem.hint)


def _elastic(resources: ResourcesSection) -> Iterator[FieldProblem]:
    least = resources.min_slots
    if least is None:
        return
    if least > resources.slots:
        yield FieldProblem(
            "resources.min_slots",
            f"is {least}, more than resources.slots, which is {resources.slots}",
            f"use at most {resources.slots}",
        )
    elif resources.nodes is not None and least < resources.nodes:
        yield FieldProblem(
            "resources.min_slots",
            f"is {least}, but resources.nodes asks for {resources.nodes} nodes with a slot each",
            f"use at least {resources.nodes}, or max_nodes instead of nodes",
        )


MIN_RUNTIME_MAX_S = 7 * 86_400.0
"""Seconds for which an attempt may be kept from being preempted."""


def _min_runtime(resources: ResourcesSection) -> Iterator[FieldProblem]:
    if resources.min_runtime is None:
        return
    seconds = duration_s(resources.min_runtime)
    if seconds is None or not 0 < seconds <= MIN_RUNTIME_MAX_S:
        yield FieldProblem(
            "resources.min_runtime",
            f"{resources.min_runtime!r} is no length of time up to {MIN_RUNTIME_MAX_S / 86_400:g} days",
            DURATION_EXAMPLES,
        )
    elif not resources.preemptible:
        yield FieldProblem(
            "resources.min_runtime",
            Message("field.no_effect", other="resources.preemptible: false"),
            "leave it out",
        )


def _where(resources: ResourcesSection) -> Iterator[FieldProblem]:
    allowed, denied = set(resources.allow_nodes), set(resources.deny_nodes)
    for name in sorted(allowed & denied):
        yield FieldProblem(
            "resources.deny_nodes",
            f"{name!r} is also in allow_nodes",
            "keep it in one of them",
        )
    needed = resources.nodes or 1
    if 0 < len(allowed - denied) < needed:
        yield FieldProblem(
            "resources.allow_nodes",
            f"names {len(allowed - denied)} usable nodes, but resources.nodes asks for {needed}",
            "name more nodes, or ask for fewer",
        )


def _lengths(document: ExperimentConfig) -> Iterator[FieldProblem]:
    full = document.search.max_length
    if full is not None and sum(getattr(full, unit) is not None for unit in UNITS) != 1:
        units = "steps, epochs, samples or seconds"
        yield FieldProblem("search.max_length", f"needs {units}, one of the four", "{epochs: 3}")
    lengths = {
        "checkpoints.every": document.checkpoints.every,
        "trainer.validate_every": document.trainer and document.trainer.validate_every,
    }
    for path, length in lengths.items():
        if length is not None and (length.steps is None) == (length.epochs is None):
            yield FieldProblem(path, "needs steps or epochs, one of the two", "{epochs: 3}")
    trainer = document.trainer
    if trainer is None:
        return
    if trainer.steps is not None and trainer.epochs is not None:
        yield FieldProblem(
            "trainer.steps", Message("field.beside", other="trainer.epochs"), "keep one of them"
        )
    own = (trainer.steps, trainer.epochs)
    if full is not None and full.seconds is not None and own == (None, None):
        yield FieldProblem(
            "trainer.epochs",
            Message("field.needed_for_schedule"),
            "epochs that fit into the time, or steps",
        )
    is_exact = full is not None and (full.steps, full.epochs) != (None, None)
    if full is not None and is_exact and any(own) and own != (full.steps, full.epochs):
        yield FieldProblem(
            "trainer.epochs" if trainer.epochs is not None else "trainer.steps",
            "differs from search.max_length",
            "say the length once, in search.max_length",
        )


def _limits(document: ExperimentConfig) -> Iterator[FieldProblem]:
    for name in ("memory", "disk"):
        size = getattr(document.resources, name)
        if size is None:
            continue
        try:
            parse_size(size)
        except ValueError as error:
            yield FieldProblem(f"resources.{name}", str(error), SIZE_EXAMPLES)
    duration = document.resources.max_duration
    if duration is not None:
        try:
            parse_duration(duration)
        except InvalidMoment as error:
            yield FieldProblem("resources.max_duration", error.problem, DURATION_EXAMPLES)


def _outputs(document: ExperimentConfig) -> Iterator[FieldProblem]:
    outputs = document.outputs
    if outputs is None:
        return
    try:
        parse_size(outputs.max_size)
    except ValueError as error:
        yield FieldProblem("outputs.max_size", str(error), SIZE_EXAMPLES)
    for path in ("include", "exclude"):
        for idx, pattern in enumerate(getattr(outputs, path)):
            if pattern.startswith("!"):
                yield FieldProblem(
                    f"outputs.{path}[{idx}]",
                    "begins with '!'",
                    "use outputs.include and outputs.exclude to keep files and to leave them out",
                )
    if not outputs.include:
        yield FieldProblem(
            "outputs.include", Message("field.empty"), "write ['**'], or outputs: null"
        )
    if outputs.keep is not None:
        yield from _kept_outputs(document, outputs.keep)


def _kept_outputs(document: ExperimentConfig, keep: KeepOutputsSection) -> Iterator[FieldProblem]:
    search = document.search
    if keep.max_size is not None:
        try:
            parse_size(keep.max_size)
        except ValueError as error:
            yield FieldProblem("outputs.keep.max_size", str(error), SIZE_EXAMPLES)
    if keep.days is None and keep.max_size is None:
        yield FieldProblem(
            "outputs.keep",
            "has neither days nor max_size, so it deletes nothing",
            "for example {days: 30, max_size: 50GB}",
        )
    if keep.experiment_best and search.metric is None and search.objectives is None:
        yield FieldProblem(
            "outputs.keep.experiment_best",
            "needs search.metric to know which trials are the best",
            "give search.metric and search.goal, or leave it out",
        )


def _adopt(document: ExperimentConfig) -> Iterator[FieldProblem]:
    path, pattern = "checkpoints.adopt", document.checkpoints.adopt
    if pattern is None:
        return
    try:
        parse(pattern)
    except NoCheckpointPattern as error:
        yield FieldProblem(path, f"{pattern!r} {error}", f"write {PATTERN_EXAMPLES}")
    others = {
        "trainer": document.trainer is not None,
        "search.runner: external": document.search.runner == "external",
        "outputs: null": document.outputs is None,
    }
    for other in (name for name, is_there in others.items() if is_there):
        yield FieldProblem(path, Message("field.no_effect", other=other), "leave one of them out")


def _log_patterns(document: ExperimentConfig) -> Iterator[FieldProblem]:
    for no, given in enumerate(document.metrics.from_log):
        try:
            LogPattern(given.pattern, name=given.name, line=given.line)
        except BadLogPattern as error:
            path = f"metrics.from_log[{no}].{error.field}"
            yield FieldProblem(path, str(error), error.hint)


def _guards(
    document: ExperimentConfig, parameters: list[sampling.SearchParameter]
) -> Iterator[FieldProblem]:
    if document.guards and document.search.runner == "external":
        message = Message("field.no_effect", other="search.runner: external")
        yield FieldProblem("guards", message, "leave one of them out")
    names = {p.name: _is_numeric(p) for p in parameters}
    yield from check_guards(document.guards, names)


def _is_numeric(parameter: sampling.SearchParameter) -> bool:
    values = parameter.values
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _variables(document: ExperimentConfig) -> Iterator[FieldProblem]:
    of_document = [("environment.variables", name) for name in document.environment.variables]
    of_roles = [
        (f"roles.{role}.environment.variables", name)
        for role, section in document.roles.items()
        for name in section.environment.variables
    ]
    for section, name in [*of_document, *of_roles]:
        path = f"{section}.{name}"
        if not _VARIABLE.fullmatch(name):
            yield FieldProblem(
                path, "is not a name of a variable", "letters, digits and '_', no digit first"
            )
        elif is_reserved(name):
            yield FieldProblem(
                path,
                "is reserved: Muster and torchrun set it, or it would change every process",
                "use another name",
            )
        elif section == "environment.variables":
            yield from _references(document, name)
    secrets = document.environment.secrets
    for name in sorted(set(secrets) & document.environment.variables.keys()):
        yield FieldProblem(
            f"environment.variables.{name}",
            Message("field.beside", other="environment.secrets"),
            "keep one of the two",
        )
    if len(set(secrets)) < len(secrets):
        yield FieldProblem(
            "environment.secrets", Message("field.twice_named"), "name each secret once"
        )


def _references(document: ExperimentConfig, name: str) -> Iterator[FieldProblem]:
    """Yield the first reference in a variable's value that names a value of the job and would reach it
    as it is written. One to a name that nobody has may be meant so, and is a warning."""
    variables, secrets = document.environment.variables, document.environment.secrets
    elements = {f"${{{element}}}" for element in document.array}
    path = f"environment.variables.{name}"
    for written in not_replaced(variables[name], itself=name):
        named = written.strip("${}")
        if written in elements:
            continue
        if is_replaced(named) or named == name or named in document.array:
            what, hint = f"no shell replaces {written}", f"write ${{{named}}}"
        elif named in secrets:
            what = f"the secret {named} is not put into another variable"
            hint = f"read {named} in your program"
        elif named in variables:
            what = f"{written} is not replaced by another variable of the document"
            hint = f"write its value, or put the two together in your program: {named}, {name}"
        elif name == "PATH":
            what = f"no shell replaces {written}, so programs would not be found"
            hint = "write ${PATH} for the PATH that the job has without it: /opt/x/bin:${PATH}"
        else:
            continue
        yield FieldProblem(path, what, hint)
        return


def _environment(document: ExperimentConfig) -> Iterator[FieldProblem]:
    environment = document.environment
    for index, item in enumerate(environment.requirements):
        path = f"environment.requirements[{index}]"
        if is_requirements_file(item) and (item.startswith("/") or ".." in item.split("/")):
            yield FieldProblem(path, "the file must lie inside the code folder", "leave out '..'")
        elif item.startswith("-"):
            yield FieldProblem(
                path, "is an option, not a package", "write options into a requirements.txt"
            )
    if environment.torch == "own" and not environment.requirements:
        yield FieldProblem(
            "environment.torch",
            "is own, but no requirements are given that could install it",
            "add requirements: [torch]",
        )
    yield from _image(document)


_MOUNT_TARGETS_TAKEN = ("/", "/tmp", "/proc", "/sys", "/dev")  # noqa: S108


def _image(document: ExperimentConfig) -> Iterator[FieldProblem]:
    environment, resources = document.environment, document.resources
    if environment.image is None and not any(images_of(document.roles, None).values()):
        default = EnvironmentSection()
        for name in ("pull_policy", "registry_login", "mounts", "shm_size", "network"):
            if getattr(environment, name) != getattr(default, name):
                yield FieldProblem(
                    f"environment.{name}",
                    "is for containers, and environment.image is not set",
                    "name an image, or leave it out",
                )
        return
    if environment.shm_size is not None:
        try:
            parse_size(environment.shm_size)
        except ValueError as error:
            yield FieldProblem("environment.shm_size", str(error), SIZE_EXAMPLES)
    for index, text in enumerate(environment.mounts):
        target = [part for part in text.split(":") if part not in ("ro", "rw")][-1]
        if ".." in text.split("/") or target.rstrip("/") in ("", *_MOUNT_TARGETS_TAKEN):
            yield FieldProblem(
                f"environment.mounts[{index}]",
                "has a path that cannot be mounted, or cannot be mounted over",
                "for example /datasets, or /scratch/ann:/scratch:rw",
            )
    is_on_one_node = resources.slots == 1 or 1 in (resources.nodes, resources.max_nodes)
    if environment.network != "host" and not is_on_one_node:
        yield FieldProblem(
            "environment.network",
            f"is {environment.network}, and the workers of several nodes could not reach each other",
            "use host, or set resources.max_nodes: 1",
        )


_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S+")


def _data(document: ExperimentConfig) -> Iterator[FieldProblem]:
    variables: dict[str, str] = {}
    for name, given in document.data.items():
        path = f"data.{name}"
        other = variables.setdefault(name.upper(), name)
        if other != name:
            yield FieldProblem(path, f"has the same variable as data.{other}", "use another name")
        if isinstance(given, str):
            where = given
            if not where.startswith("/") and not _URL.fullmatch(where):
                yield FieldProblem(
                    path,
                    "is neither an absolute path nor a URL",
                    "for example /shared/imagenet or s3://bucket/imagenet",
                )
        else:
            yield from _described_data(path, given)
            path, where = f"{path}.url", given.url or ""
        if "@" in where.partition("://")[2].partition("/")[0]:
            # Not repeated: what stands there may be a secret.
            yield FieldProblem(
                path,
                "has a user or password in its address",
                "leave it out: everybody who may see the experiment would read it",
            )


def _described_data(path: str, given: DataSection) -> Iterator[FieldProblem]:
    if sum(one is not None for one in (given.folder, given.url, given.command)) != 1:
        yield FieldProblem(
            path, "needs folder, url or command, one of the three", "{folder: /shared/imagenet}"
        )
        return
    if given.cached and given.url is None:
        yield FieldProblem(f"{path}.cached", "is about a url alone", "leave it out")
    if given.folder is not None and given.size is not None:
        yield FieldProblem(f"{path}.size", "is what is downloaded or made", "leave it out")
    if given.url is not None and not _URL.fullmatch(given.url):
        yield FieldProblem(
            f"{path}.url",
            "is not a URL, and only a URL is downloaded",
            "write a path as text: data: {train: /shared/imagenet}",
        )
    elif given.url is not None and not given.cached:
        if given.digest is not None:
            yield FieldProblem(
                f"{path}.digest",
                "is checked of files that are there before the job starts",
                "add cached: true, or use folder",
            )
        if given.size is None:
            yield FieldProblem(f"{path}.size", "is missing", "for example size: 150GB")
    if given.size is not None:
        try:
            parse_size(given.size)
        except ValueError as error:
            yield FieldProblem(f"{path}.size", str(error), SIZE_EXAMPLES)


def _budget(document: ExperimentConfig) -> Iterator[FieldProblem]:
    budget = document.budget
    if budget is None or budget.deadline is None:
        return
    try:
        # The form alone: whether a moment has passed already is for the submission to say.
        parse_deadline(budget.deadline, dt.datetime.min.replace(tzinfo=dt.UTC))
    except InvalidMoment as error:
        yield FieldProblem("budget.deadline", error.problem, EXAMPLES)


def _from(document: ExperimentConfig) -> Iterator[FieldProblem]:
    source = document.from_
    if source is None:
        return
    named = [n for n in ("checkpoint", "trial", "experiment") if getattr(source, n) is not None]
    if len(named) != 1:
        what = "names nothing" if not named else f"names {' and '.join(named)}"
        yield FieldProblem(
            "from",
            what,
            "name one of checkpoint, trial and experiment by its number: {trial: 36.2}",
        )
    if named == ["checkpoint"] and source.pick != "latest":
        yield FieldProblem(
            "from.pick", Message("field.no_effect", other="checkpoint"), "leave it out"
        )
