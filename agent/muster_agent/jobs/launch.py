"""The commands of an allocation, as argument vectors and environments. Pure.

The exact commands are pinned by golden tests, because users reproduce them by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from muster.document.codec import load
from muster.document.inference import BUILT_IN_MODULES
from muster.document.running import EnvironmentSection, MeasureSection
from muster.launch import slurm, uncaught
from muster.launch.commands import (
    BATCH,
    HOSTFILE_VARIABLE,
    WORLD_SIZE_VARIABLE,
    GangPlace,
    complete,
    find_call,
    is_command,
)
from muster.launch.variables import (
    MODEL_PREFIX,
    NODE_ADDRESS_VARIABLE,
    PATH_VARIABLE,
    SESSION_DIR_VARIABLE,
    expand,
    uses_variables,
)
from muster.wire import LAUNCHER_LOCAL_RANK, AllocationSpec, Rendezvous
from muster_agent.jobs.inputs import data_of, role_variables, variable_of

RENDEZVOUS_READ_TIMEOUT_S = 300
"""Seconds to wait at the rendezvous. Nodes start together, but importing torch from a slow shared
disk may take one of them minutes."""

GIT_CEILING = "GIT_CEILING_DIRECTORIES"
"""Variable with the folders above which git looks for no repository."""
STEPS = "steps"
"""What `attached` names for measuring."""
TRACKING_MARK = "muster-"
"""Beginning of the tokens of tracking servers."""
_LAUNCHER_VARIABLES = frozenset(
    {
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
    }
)  # fmt: skip
_LAUNCHER_PREFIXES = ("TORCHELASTIC_", "TORCH_ELASTIC_", "PET_")


@dataclass(frozen=True, kw_only=True)
class LaunchContext:
    """Facts about this node that an allocation's spec cannot know."""

    python: str
    work_dir: str
    """Working directory of the workers."""
    logs_dir: str
    report_socket: str
    config_file: str
    checkpoint_dir: str
    resume_from: str
    """Absolute path or URL of a checkpoint, or "" for a fresh start."""
    weights_from: str
    """Absolute path or URL of a checkpoint whose weights to start from, or ""."""
    cache_dir: str
    """Folder of compiler caches. One per allocation: a worker killed while compiling leaves a
    truncated file behind, which would break every later run that shares the cache."""
    network_interface: str = ""
    """Interface that holds the node's address; "" if unknown."""
    node_address: str = ""
    """Address at which other nodes reach this one."""
    base_python: str = ""
    """The interpreter below `python`, whose packages it uses, if that was built for the job."""
    sdk_path: str = ""
    """Folder to put on PYTHONPATH so that `import muster` works; "" if it already does."""
    sdk_folder: str = ""
    """Folder of the SDK for any other interpreter that a command may start."""
    attach_path: str = ""
    """Folder whose sitecustomize measures scripts that do not measure themselves; see
    muster.launch.attach."""
    launchers_path: str = ""
    """Folder of the programs that complete the commands of launchers in a shell script; "" for
    none. See muster.launch.commands."""
    resume_step: int | None = None
    """Step of `resume_from`; None: the spec's."""
    checkpoint_local: str = ""
    """Folder of this disk in which checkpoints are saved first; "" for none."""
    hostfile: str = ""
    """File for deepspeed that names the nodes of the gang; "" on a single node."""
    files_dir: str = ""
    """Files of the trial's work folder: the working directory, unless the code is installed."""
    output_dir: str = ""
    """Folder whose content is always kept."""
    ras_port: int = 0
    """Port at which NCCL answers what it knows of the job; 0 where it is not used."""
    models_dir: str = ""
    """Folder of the versions of models that the job reads, each in one of its name."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Folders of the data sets that this node keeps, by name."""
    has_own_devices: bool = False
    """Whether the job sees no devices but its own, which are numbered from 0 for it."""
    gpus: tuple[str, ...] = ()
    """UUIDs of the devices of its slots, in their order; empty where the driver does not tell them. A
    number is that of another device once one has fallen off the bus; MIG instances have none."""
    tracking_uri: str = ""
    """Where scripts find the shim's tracking server; "" for none."""
    tracking_token: str = ""
    loopback_interface: str = "lo"
    device_numbers: tuple[int, ...] = ()
    """Numbers by which the driver counts these devices; see ShimOptions."""
    num_threads: int = 0
    """Threads of a job of one process; 0: as many as the libraries count cores."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """Part of the agent's environment that is passed on; see `inheritable`."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values of the secrets of the document, by variable."""
    address: str = ""
    """Host and port that a member of a role may listen on; "" for any other job."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses of the members of each role, in order; see wire.Assignment."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process to start. `local_rank` is -1 for a launcher that starts the workers itself."""

    local_rank: int
    rank: int
    argv: list[str]
    environment: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class WarmCommand:
    """Processes to fork, as environments."""

    shared: dict[str, str]
    """Variables of the parent."""
    own: dict[str, str]
    """Variables of all processes of this allocation that the parent does not have."""
    workers: list[dict[str, str]]
    """Variables of each worker, by local rank; of a launcher, none."""
    launcher: list[str] = field(default_factory=list)
    """Module and arguments of torchrun, if it is forked and starts the workers itself."""
    unset: set[str] = field(default_factory=set)
    """Names of `shared` that they do not have."""


def inheritable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the shim's environment that workers inherit.

    Left out: everything of ours (the lifeline) and another launcher's variables. What the shim has
    of the agent's environment is decided in muster_agent.isolation.variables.
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("MUSTER_") and not _belongs_to_launcher(name)
    }


def build_commands(
    spec: AllocationSpec, place: LaunchContext, *, rendezvous: Rendezvous | None
) -> list[Command]:
    """Return the processes to start for `spec`: one torchrun, one shell command, one plain process,
    or one process per slot.

    rendezvous: required when the gang spans nodes, and for the launchers "direct" and "shell".
    Raises ValueError when it is missing, and CommandConflict.
    """
    environment = _environment(spec, place)
    spec = with_values(spec, environment)
    if spec.launcher == "torchrun":
        argv = _torchrun_argv(spec, place, rendezvous)
        return [
            Command(local_rank=LAUNCHER_LOCAL_RANK, rank=-1, argv=argv, environment=environment)
        ]
    if spec.launcher == "plain":
        environment[uncaught.FOLDER_VARIABLE] = worker_log_dir(place.logs_dir, 0)
        return [Command(local_rank=0, rank=0, argv=_own_argv(spec, place), environment=environment)]
    if rendezvous is None:
        raise ValueError(f"launcher {spec.launcher!r} needs a rendezvous")
    if spec.launcher == "shell":
        environment = _shell_environment(spec, place, rendezvous, environment)
        environment[uncaught.FOLDER_VARIABLE] = f"{place.logs_dir}/launcher"
        argv = shell_argv(with_values(spec, environment), place, rendezvous)
        return [
            Command(local_rank=LAUNCHER_LOCAL_RANK, rank=-1, argv=argv, environment=environment)
        ]
    return [
        Command(
            local_rank=local_rank,
            rank=spec.rank_offset + local_rank,
            argv=_own_argv(spec, place),
            environment=environment | _rank_variables(spec, place, rendezvous, local_rank),
        )
        for local_rank in range(len(spec.slots))
    ]


def environment_of(spec: AllocationSpec) -> EnvironmentSection:
    """Return the section `environment` of the spec's document."""
    return load(EnvironmentSection, spec.config.get("environment") or {})


def with_values(spec: AllocationSpec, values: Mapping[str, str]) -> AllocationSpec:
    """Return the spec with the value of each `${NAME}` in its arguments; see
    muster.launch.variables."""
    return replace(spec, entrypoint=[expand(word, values) for word in spec.entrypoint])


def attached(spec: AllocationSpec) -> list[str]:
    """Return what Muster attaches to the workers from outside, see muster.launch.attach: "steps", to
    measure them, and the routes by which values are captured. None to the built-in trainer."""
    if is_built_in(spec):
        return []
    measure = load(MeasureSection, spec.config.get("measure") or {})
    routes = [route for route in measure.capture if route != "mlflow"]
    return [*([STEPS] if measure.steps and measure.scripts else []), *routes]


def tracks(spec: AllocationSpec) -> bool:
    """Return whether the shim answers MLflow's clients in the job."""
    measure = load(MeasureSection, spec.config.get("measure") or {})
    return "mlflow" in measure.capture and not is_built_in(spec)


def is_built_in(spec: AllocationSpec) -> bool:
    """Return whether the workers run the built-in trainer or another program of Muster's own."""
    return spec.entrypoint[:1] == ["-m"] and "".join(spec.entrypoint[1:2]) in BUILT_IN_MODULES


def why_cold(spec: AllocationSpec, *, is_isolated: bool = False) -> str:
    """Return why neither the workers of `spec` nor their torchrun can be forked from a warm parent, as
    one clause; "" if they can.

    What a warm parent could not give exactly as a new interpreter does is left to torchrun.

    is_isolated: whether the node isolates jobs. A warm parent is outside the walls, with the agent's
        rights, so nothing that a document names may be its interpreter or in its environment.
    """
    script = spec.entrypoint[0]
    if is_isolated and spec.python is not None:
        return "environment.python names an interpreter, which runs behind the walls alone"
    if is_isolated and spec.environment:
        return "environment.variables has variables, which are for programs behind the walls alone"
    if spec.launcher != "torchrun":
        return f"the launcher is {spec.launcher!r}"
    environment = environment_of(spec)
    if not environment.warm:
        return "environment.warm is false"
    if environment.image is not None:
        return "an image starts them in a container"
    if environment.requirements or environment.setup:
        return "its environment is built on the node"
    if script != "-m" and not script.endswith(".py"):
        return f"{script} is not a .py file"
    if any(word.startswith("torch.distributed.") for word in spec.entrypoint[:2]):
        return "its entry point starts workers of its own"
    for name in sorted(spec.environment):
        if name.startswith(("PYTHON", "LD_")):
            return f"environment.variables has {name}, which changes what the interpreter loads"
        if uses_variables(spec.environment[name], itself=name):
            return f"environment.variables.{name} differs from trial to trial"
    return ""


def shared_environment(
    spec: AllocationSpec, *, inherited: Mapping[str, str], sdk_path: str, loopback_interface: str
) -> dict[str, str]:
    """Return the part of the workers' environment that is the same for every allocation like `spec`
    on one node: a warm parent is started with it. Requires that `why_cold` returns ""."""
    return parent_environment(
        spec.environment,
        inherited=inherited,
        sdk_path=sdk_path,
        loopback_interface=loopback_interface,
    )


def parent_environment(
    variables: Mapping[str, str],
    *,
    inherited: Mapping[str, str],
    sdk_path: str,
    loopback_interface: str,
) -> dict[str, str]:
    """Return the environment of a warm parent on one node for documents with these variables."""
    defaults = _defaults(loopback_interface, 1)
    of_user = {k: v for k, v in variables.items() if not _belongs_to_launcher(k)}
    merged = _with_path({**inherited, **defaults, **of_user}, sdk_path)
    return {k: v for k, v in merged.items() if k not in _OWN_VARIABLES}


def build_warm_launcher(
    spec: AllocationSpec, place: LaunchContext, rendezvous: Rendezvous | None
) -> WarmCommand:
    """Return the request to a warm parent that forks torchrun; see muster.launch.warm."""
    shared = shared_environment(
        spec,
        inherited=place.inherited,
        sdk_path=place.sdk_path,
        loopback_interface=place.loopback_interface,
    )
    (command,) = build_commands(spec, place, rendezvous=rendezvous)
    own = {k: v for k, v in command.environment.items() if shared.get(k) != v or k in place.secrets}
    unset = shared.keys() - command.environment.keys()
    return WarmCommand(shared=shared, own=own, workers=[{}], launcher=command.argv[1:], unset=unset)


def build_warm(spec: AllocationSpec, place: LaunchContext, *, run_id: str) -> WarmCommand:
    """Return the request to a warm parent that replaces torchrun; see muster.launch.warm.

    The port of the rendezvous is the keeper's to choose, who also hosts the store.
    """
    shared = shared_environment(
        spec,
        inherited=place.inherited,
        sdk_path=place.sdk_path,
        loopback_interface=place.loopback_interface,
    )
    meeting = Rendezvous(host="127.0.0.1", port=0, run_id=run_id)
    # The workers' interpreter has already started, so the forked child attaches itself.
    full = _environment(spec, replace(place, attach_path=""))
    workers = []
    for local_rank in range(len(spec.slots)):
        variables = _rank_variables(spec, place, meeting, local_rank)
        del variables["MASTER_PORT"]
        workers.append(variables)
    own = {k: v for k, v in full.items() if k not in shared or k in place.secrets}
    if place.attach_path and (what := attached(spec)):
        own["MUSTER_ATTACH"] = " ".join(what)
    own["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    return WarmCommand(shared=shared, own=own, workers=workers)


def session_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command that a user runs inside a job: that of its launcher or
    first worker, without what would make a script there take part in the training or report as
    one of its workers."""
    path = environment.get("PYTHONPATH", "").split(":")
    kept = ":".join(folder for folder in path if not folder.endswith("/attach_site"))
    left_out = set(_OF_WORKERS_ALONE)
    if environment.get("MLFLOW_TRACKING_TOKEN", "").startswith(TRACKING_MARK):
        left_out |= {"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_TOKEN"}
    found = {
        name: value
        for name, value in environment.items()
        if name not in left_out and not _belongs_to_launcher(name)
    }
    return found | {"PYTHONPATH": kept} if kept else found


def worker_log_dir(logs_dir: str, local_rank: int) -> str:
    """Return the log folder of a worker that was not started by torchrun."""
    return f"{logs_dir}/direct/{local_rank}"


def _torchrun_argv(
    spec: AllocationSpec, place: LaunchContext, rendezvous: Rendezvous | None
) -> list[str]:
    if spec.num_nodes > 1:
        if rendezvous is None:
            raise ValueError("a gang of several nodes needs a rendezvous")
        endpoint, run_id = rendezvous.address, rendezvous.run_id
        local_address = _identity_for_torchrun(spec, rendezvous)
        # `muster.launch.rendezvous` hosts the store, so no torchrun may try to bind it.
        conf = f"is_host=false,read_timeout={RENDEZVOUS_READ_TIMEOUT_S}"
    else:
        # Same as --standalone (a store on a port the kernel picks), with an id of our own.
        endpoint, run_id, local_address = "localhost:0", f"muster-{spec.allocation_id}", "127.0.0.1"
        conf = f"is_host=true,read_timeout={RENDEZVOUS_READ_TIMEOUT_S}"
    return [
        place.python,
        "-m",
        "torch.distributed.run",
        f"--nnodes={spec.num_nodes}",
        f"--nproc-per-node={len(spec.slots)}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={endpoint}",
        f"--rdzv-id={run_id}",
        f"--rdzv-conf={conf}",
        f"--local-addr={local_address}",
        "--max-restarts=0",  # The controller owns restarts.
        "--monitor-interval=0.1",
        f"--log-dir={place.logs_dir}/torchrun",
        "--redirects=3",  # Files, because a full pipe would block training.
        *spec.entrypoint,
    ]


def _identity_for_torchrun(spec: AllocationSpec, rendezvous: Rendezvous) -> str:
    """Return what torchrun is told of this node's address.

    It tells nodes apart by this and by its pid, and two sandboxes of one machine can have both in
    common. It orders nodes by it as well, and connects to that of the first one alone: node 0,
    whose address is that of the rendezvous. So the others add their number.
    """
    return f"{rendezvous.host}#{spec.node_rank:05d}" if spec.node_rank else rendezvous.host


def _own_argv(spec: AllocationSpec, place: LaunchContext) -> list[str]:
    """Return the entry point as it is, run by the interpreter unless it is a command."""
    return spec.entrypoint if is_command(spec.entrypoint) else [place.python, *spec.entrypoint]


def shell_argv(spec: AllocationSpec, place: LaunchContext, rendezvous: Rendezvous) -> list[str]:
    """Return the command of launcher "shell", with what its launcher lacks. Raises CommandConflict.

    torchrun is the interpreter's own: the one on PATH may belong to another interpreter.
    """
    argv = _own_argv(spec, place)
    if is_batch(spec):
        return [*slurm.command(place.python), f"{place.launchers_path}/{BATCH}", *argv[1:]]
    call = find_call(argv)
    if call is None or not is_command(spec.entrypoint) or not helps_launchers(spec):
        return argv
    if call.launcher == "torchrun" and len(call.prefix) == 1:
        argv = [place.python, "-m", "torch.distributed.run", *call.rest]
    return complete(argv, gang_place(spec, place, rendezvous), log_dir=f"{place.logs_dir}/torchrun")


def is_batch(spec: AllocationSpec) -> bool:
    """Return whether the entry point is a batch script of Slurm; see muster.launch.slurm."""
    return spec.launcher == "shell" and spec.entrypoint[0] == BATCH


def gang_place(spec: AllocationSpec, place: LaunchContext, rendezvous: Rendezvous) -> GangPlace:
    """Return what a launcher has to know of this node's place in the gang."""
    return GangPlace(
        num_nodes=spec.num_nodes,
        node_rank=str(spec.group_rank),
        num_local=len(spec.slots),
        world_size=spec.world_size,
        master_addr=rendezvous.host,
        master_port=str(rendezvous.port),
        is_cpu=spec.slot_type == "cpu",
        hostfile=place.hostfile,
        device_ids=_device_ids(spec, place),
    )


def _device_ids(spec: AllocationSpec, place: LaunchContext) -> tuple[str, ...]:
    """Return the numbers of its devices as the job sees them."""
    if spec.slot_type != "cuda":
        return ()
    numbers: Sequence[int] = place.device_numbers or spec.slots
    if place.has_own_devices:
        numbers = range(len(spec.slots))
    return tuple(str(number) for number in numbers)


def _visible_devices(spec: AllocationSpec, place: LaunchContext) -> tuple[str, ...]:
    """Return the names of its devices. Launchers that a command brings along, such as deepspeed, count
    devices and read nothing but numbers, unless these are not known: the index of a slot is that of its
    device at first, and stays when other devices are missing."""
    has_numbers = bool(place.has_own_devices or place.device_numbers)
    if place.gpus and not (spec.launcher == "shell" and has_numbers):
        return place.gpus
    return _device_ids(spec, place)


def helps_launchers(spec: AllocationSpec) -> bool:
    """Return whether the commands of launchers are completed, which the document can disable."""
    return bool(spec.config.get("launcher_help", True))


def _shell_environment(
    spec: AllocationSpec,
    place: LaunchContext,
    rendezvous: Rendezvous,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables that shell scripts for several nodes are usually written for.

    None of them is a rank, and none is torchrun's (PET_…): a launcher that the script starts for
    this node alone would wait for workers of other nodes for ever.
    """
    defaults = {
        "NNODES": str(spec.num_nodes),
        "NUM_NODES": str(spec.num_nodes),
        "NPROC_PER_NODE": str(len(spec.slots)),
        "GPUS_PER_NODE": str(len(spec.slots)),
    }
    found = {
        **defaults,
        **environment,
        "MASTER_ADDR": rendezvous.host,
        "MASTER_PORT": str(rendezvous.port),
        "NODE_RANK": str(spec.group_rank),
    }
    if place.hostfile:
        found[HOSTFILE_VARIABLE] = place.hostfile
    if is_batch(spec):
        found |= {
            slurm.KEY_VARIABLE: spec.gang_key,
            slurm.LOGS_VARIABLE: f"{place.logs_dir}/direct",
            slurm.SCRATCH_VARIABLE: f"{place.cache_dir}/scratch",
        }
    if place.launchers_path:
        found["PATH"] = f"{place.launchers_path}:{found.get('PATH', '')}"
    return found


_NO_LINKS = "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"
_PROXY_VARIABLES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
_OF_WORKERS_ALONE = frozenset(
    {
        "MUSTER_REPORT_SOCKET",
        "MUSTER_ATTACH",
        "MUSTER_ATTACH_UNRANKED",
        "PYTHONPATH",
        uncaught.FOLDER_VARIABLE,
        slurm.KEY_VARIABLE,
    }
)
DUMP_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Variables with the path of torch's dumps: of this version, and of older ones."""
_OWN_VARIABLES = frozenset(
    {
        *DUMP_VARIABLES,
        "NCCL_RAS_ADDR",
        "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_VISIBLE_DEVICES",
        "MUSTER_ALLOCATION_ID", "MUSTER_ATTEMPT_NO", "MUSTER_CHECKPOINT_DIR",
        "MUSTER_CHECKPOINT_URL", "MUSTER_CHECKPOINT_LOCAL", "MUSTER_CONFIG_FILE",
        "MUSTER_EXPERIMENT_ID", NODE_ADDRESS_VARIABLE, "MUSTER_NODE_RANK", "MUSTER_OUTPUT_DIR", "MUSTER_PROFILES_DIR", "MUSTER_REPORT_SOCKET", "MUSTER_RESUME_FROM",
        "MUSTER_RESUME_STEP", "MUSTER_SKIP_SAMPLES", "MUSTER_STACKS_DIR", "MUSTER_TRIAL_ID", "MUSTER_TRIAL_NO", "MUSTER_WEIGHTS_FROM",
        WORLD_SIZE_VARIABLE,
        "MUSTER_WORK_DIR", "MUSTER_CODE_COMMIT", "SETUPTOOLS_SCM_PRETEND_VERSION",
    }
)  # fmt: skip
"""Variables that differ between two allocations of one kind."""


def _environment(spec: AllocationSpec, place: LaunchContext) -> dict[str, str]:
    interface = place.network_interface if spec.num_nodes > 1 else place.loopback_interface
    ours = {
        "TORCHINDUCTOR_CACHE_DIR": f"{place.cache_dir}/inductor",
        "TRITON_CACHE_DIR": f"{place.cache_dir}/triton",
        "CUDA_VISIBLE_DEVICES": ",".join(_visible_devices(spec, place)),
        "MUSTER_ALLOCATION_ID": spec.allocation_id,
        "MUSTER_ATTEMPT_NO": str(spec.attempt_no),
        "MUSTER_CHECKPOINT_DIR": place.checkpoint_dir,
        "MUSTER_CHECKPOINT_URL": spec.checkpoint_url,
        "MUSTER_CHECKPOINT_LOCAL": place.checkpoint_local,
        "MUSTER_CONFIG_FILE": place.config_file,
        "MUSTER_EXPERIMENT_ID": str(spec.experiment_id),
        "MUSTER_NODE_RANK": str(spec.node_rank),
        "MUSTER_OUTPUT_DIR": place.output_dir,
        "MUSTER_PROFILES_DIR": f"{place.cache_dir}/profiles",
        "MUSTER_REPORT_SOCKET": place.report_socket,
        "MUSTER_RESUME_FROM": place.resume_from,
        "MUSTER_RESUME_STEP": str(
            spec.resume_step if place.resume_step is None else place.resume_step
        ),
        # A checkpoint that only this disk has is another place.
        "MUSTER_SKIP_SAMPLES": str(spec.skip_samples if place.resume_step is None else 0),
        "MUSTER_STACKS_DIR": f"{place.cache_dir}/stacks",
        "MUSTER_TRIAL_ID": str(spec.trial_id),
        "MUSTER_TRIAL_NO": str(spec.trial_no),
        "MUSTER_WEIGHTS_FROM": place.weights_from,
        WORLD_SIZE_VARIABLE: str(spec.world_size),
        "MUSTER_WORK_DIR": place.files_dir,
        **{variable_of(name): where for name, where in {**data_of(spec), **place.data}.items()},
        **{f"{MODEL_PREFIX}{name.upper()}": f"{place.models_dir}/{name}" for name in spec.models},
    }
    if spec.role:
        ours |= role_variables(spec, place.address, place.addresses)
    if spec.config.get("serve"):
        ours[NODE_ADDRESS_VARIABLE] = place.node_address
    if spec.config.get("session"):
        ours[SESSION_DIR_VARIABLE] = f"{place.cache_dir}/session"
    defaults = _defaults(interface, spec.num_nodes)
    if place.output_dir:
        defaults |= dict.fromkeys(DUMP_VARIABLES, dump_prefix(place.output_dir, spec.attempt_no))
    if place.ras_port:
        defaults["NCCL_RAS_ADDR"] = f"localhost:{place.ras_port}"
    # A repository above the work folders is not that of the job. A warm parent knows no work folder.
    defaults[GIT_CEILING] = str(PurePosixPath(place.files_dir).parent.parent)
    if spec.launcher == "plain" or (spec.launcher == "shell" and spec.world_size == 1):
        # One thread is what torchrun gives each of several workers.
        del defaults["OMP_NUM_THREADS"]
        if spec.launcher == "plain":
            del defaults["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]
        if place.num_threads:
            defaults["OMP_NUM_THREADS"] = str(place.num_threads)
    if spec.slot_type == "cpu":
        # Without it, Accelerate's workers on CPUs train alone, each on all data.
        defaults["ACCELERATE_USE_CPU"] = "true"
    known = {**place.inherited, **defaults, **ours}
    of_user = {k: expand(v, known, itself=k) for k, v in _of_user(spec).items()}
    merged = {**place.inherited, **defaults, **of_user, **place.secrets, **ours}
    merged = _with_tracking(merged, place)
    found = _with_path(merged, place.sdk_path)
    if not place.attach_path:
        return found
    what = attached(spec)
    if what:
        found["MUSTER_ATTACH"] = " ".join(what)
    if what and spec.launcher in ("plain", "shell"):
        # A worker there may be known by no variable of a launcher.
        found["MUSTER_ATTACH_UNRANKED"] = "1"
        found[PATH_VARIABLE] = f"{place.attach_path}:{place.sdk_folder}"
    return _with_path(found, place.attach_path)


def dump_prefix(output_dir: str, attempt_no: int) -> str:
    """Return the path, without the rank, to which torch dumps its flight recorder when a collective
    times out."""
    return f"{output_dir}/flight-recorder-{attempt_no}-rank-"


def _defaults(interface: str, num_nodes: int) -> dict[str, str]:
    """Return the defaults that a user may override.

    interface: network interface to use between workers, "" if unknown."""
    defaults = {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        # Seconds torchrun gives the siblings of a failed worker (its default is 30).
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "10",
        # torchrun's value; torch's own is 3, with which a hang ends in another way.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",  # The default of newer versions of torch.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # The order of nvidia-smi, hence of slot indexes.
        "KINETO_LOG_LEVEL": "6",  # Else two lines in the log at every start of torch's profiler.
    }
    if interface:
        # By default gloo listens where the host name resolves to, often 127.0.1.1.
        defaults["GLOO_SOCKET_IFNAME"] = interface
        if num_nodes > 1:
            defaults["NCCL_SOCKET_IFNAME"] = interface
    return defaults


def _of_user(spec: AllocationSpec) -> dict[str, str]:
    return {k: v for k, v in spec.environment.items() if not _belongs_to_launcher(k)}


def _with_tracking(environment: dict[str, str], place: LaunchContext) -> dict[str, str]:
    """Return the environment with the tracking server, unless the job has one of its own."""
    if not place.tracking_uri or "MLFLOW_TRACKING_URI" in environment:
        return environment
    ours = {
        "MLFLOW_TRACKING_URI": place.tracking_uri,
        "MLFLOW_TRACKING_TOKEN": place.tracking_token,
    }
    # It would name this node's loopback interface, where nobody can look.
    ours[_NO_LINKS] = environment.get(_NO_LINKS, "true")
    if any(environment.get(name) for name in _PROXY_VARIABLES):
        # Clients would ask the proxy for the loopback interface, too.
        name = "no_proxy" if environment.get("no_proxy") else "NO_PROXY"
        ours[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1")))
    return {**environment, **ours}


def _with_path(environment: dict[str, str], folder: str) -> dict[str, str]:
    """Return PYTHONPATH with `folder` in front; "" for none."""
    if not folder:
        return environment
    rest = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": f"{folder}:{rest}" if rest else folder}


def _rank_variables(
    spec: AllocationSpec, place: LaunchContext, rendezvous: Rendezvous, local_rank: int
) -> dict[str, str]:
    rank = spec.rank_offset - spec.rank_base + local_rank
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(spec.world_size),
        "LOCAL_WORLD_SIZE": str(len(spec.slots)),
        "GROUP_RANK": str(spec.group_rank),
        "GROUP_WORLD_SIZE": str(spec.num_nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(spec.world_size),
        "ROLE_NAME": "default",
        "MASTER_ADDR": rendezvous.host,
        "MASTER_PORT": str(rendezvous.port),
        "TORCHELASTIC_RUN_ID": rendezvous.run_id,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_ERROR_FILE": f"{worker_log_dir(place.logs_dir, local_rank)}/error.json",
    }


def _belongs_to_launcher(name: str) -> bool:
    return name in _LAUNCHER_VARIABLES or name.startswith(_LAUNCHER_PREFIXES)
