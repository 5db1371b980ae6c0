"""The exact commands: users reproduce them by hand, so a change here is a change people see."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from muster import wire
from muster.capture.libraries import LIBRARIES
from muster_agent.jobs.launch import (
    LaunchContext,
    build_commands,
    build_warm,
    inheritable,
    session_environment,
    why_cold,
)

PLACE = LaunchContext(
    python="/venv/bin/python",
    work_dir="/w/files",
    files_dir="/w/files",
    output_dir="/w/files/muster-outputs",
    logs_dir="/a/logs",
    report_socket="/tmp/s/report",
    config_file="/a/config.json",
    checkpoint_dir="/storage/trial-7",
    resume_from="",
    weights_from="",
    cache_dir="/a/cache",
    network_interface="eth1",
)
MEETING = wire.Rendezvous(host="10.0.0.4", port=40123, run_id="muster-7.1")


def test_torchrun_on_one_node(make_spec: Any) -> None:
    spec = make_spec(launcher="torchrun", entrypoint=["train.py", "--epochs", "3"])
    (command,) = build_commands(spec, PLACE, rendezvous=None)
    assert command.local_rank == -1
    assert command.argv == [
        "/venv/bin/python",
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        "--rdzv-id=muster-a1",
        "--rdzv-conf=is_host=true,read_timeout=300",
        "--local-addr=127.0.0.1",
        "--max-restarts=0",
        "--monitor-interval=0.1",
        "--log-dir=/a/logs/torchrun",
        "--redirects=3",
        "train.py",
        "--epochs",
        "3",
    ]


def test_torchrun_of_a_gang_joins_a_store_somebody_else_hosts(make_spec: Any) -> None:
    spec = make_spec(
        launcher="torchrun",
        entrypoint=["-m", "muster.training"],
        num_nodes=2,
        node_rank=1,
        rank_offset=2,
        world_size=4,
    )
    (command,) = build_commands(spec, PLACE, rendezvous=MEETING)
    assert command.argv[3:11] == [
        "--nnodes=2",
        "--nproc-per-node=2",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=10.0.0.4:40123",
        "--rdzv-id=muster-7.1",
        "--rdzv-conf=is_host=false,read_timeout=300",
        "--local-addr=10.0.0.4#00001",
        "--max-restarts=0",
    ]
    assert command.argv[-2:] == ["-m", "muster.training"]
    assert command.environment["GLOO_SOCKET_IFNAME"] == "eth1"
    assert command.environment["NCCL_SOCKET_IFNAME"] == "eth1"


def test_nccl_answers_at_an_address_of_the_attempt(make_spec: Any) -> None:
    place = dataclasses.replace(PLACE, ras_port=21_007)
    (command,) = build_commands(make_spec(launcher="torchrun"), place, rendezvous=None)
    assert command.environment["NCCL_RAS_ADDR"] == "localhost:21007"
    of_user = make_spec(launcher="torchrun", environment={"NCCL_RAS_ADDR": "h:1"})
    (command,) = build_commands(of_user, place, rendezvous=None)
    assert command.environment["NCCL_RAS_ADDR"] == "h:1"


def test_warm_workers_get_what_torchruns_get(make_spec: Any) -> None:
    spec = make_spec(launcher="torchrun", environment={"A": "1", "RANK": "9"})
    warm = build_warm(spec, PLACE, run_id="r")
    (torchrun,) = build_commands(spec, PLACE, rendezvous=None)
    assert warm.shared | warm.own == torchrun.environment | {
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    assert warm.shared["A"] == "1"
    assert not any(name.startswith("MUSTER_") for name in warm.shared)
    assert [w["RANK"] for w in warm.workers] == ["0", "1"]
    other = build_warm(
        make_spec("a2", launcher="torchrun", environment={"A": "1"}, slots=[4], trial_id=8),
        dataclasses.replace(PLACE, report_socket="/s", cache_dir="/c", resume_from="/x"),
        run_id="other",
    )
    assert other.shared == warm.shared


def test_scripts_of_one_s_own_are_measured_from_outside(make_spec: Any) -> None:
    place = dataclasses.replace(PLACE, sdk_path="/sdk", attach_path="/sdk/muster/attach_site")

    def environment(**changes: Any) -> dict[str, str]:
        spec = make_spec(launcher="torchrun", **changes)
        (command,) = build_commands(spec, place, rendezvous=None)
        return command.environment

    def what(**changes: Any) -> list[str]:
        return environment(**changes).get("MUSTER_ATTACH", "").split()

    # Every worker outlives a signal to all, measured or not.
    ours = "/sdk/muster/attach_site:/sdk"
    assert environment(entrypoint=["-m", "muster.training"])["PYTHONPATH"] == ours
    assert environment(environment={"PYTHONPATH": "/libs"})["PYTHONPATH"] == f"{ours}:/libs"
    assert what() == ["steps", *LIBRARIES]
    assert "steps" in what(config={"measure": {"steps": True, "comm": False}})
    # The built-in trainer measures itself; and the document may say no.
    assert what(entrypoint=["-m", "muster.training"]) == []
    for off in ({"scripts": False}, {"steps": False}):
        assert what(config={"measure": off}) == list(LIBRARIES), "values are captured all the same"
        assert what(config={"measure": {**off, "capture": []}}) == []
    # A forked worker's interpreter has started before: it is told, and its path stays as it is.
    warm = build_warm(make_spec(launcher="torchrun"), place, run_id="r")
    assert warm.own["MUSTER_ATTACH"].split() == ["steps", *LIBRARIES]
    assert (warm.shared | warm.own)["PYTHONPATH"] == "/sdk"
    own = build_warm(
        make_spec(launcher="torchrun", entrypoint=["-m", "muster.training"]), place, run_id="r"
    ).own
    assert "MUSTER_ATTACH" not in own


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"entrypoint": ["-m", "muster.training", "--x", "torch.distributed.run"]}, ""),
        ({"launcher": "direct"}, "the launcher is 'direct'"),
        ({"launcher": "shell", "entrypoint": ["bash", "x"]}, "the launcher is 'shell'"),
        ({"config": {"environment": {"warm": False}}}, "environment.warm is false"),
        (
            {"config": {"environment": {"requirements": ["einops"]}}},
            "its environment is built on the node",
        ),
        ({"num_nodes": 2}, ""),
        ({"entrypoint": ["train.zip"]}, "train.zip is not a .py file"),
        (
            {"entrypoint": ["-m", "torch.distributed.run", "train.py"]},
            "its entry point starts workers of its own",
        ),
        (
            {"environment": {"PYTHONPATH": "/libs"}},
            "environment.variables has PYTHONPATH, which changes what the interpreter loads",
        ),
    ],
)
def test_what_keeps_workers_from_being_forked(
    make_spec: Any, changes: dict[str, Any], reason: str
) -> None:
    assert why_cold(make_spec(**{"launcher": "torchrun", **changes})) == reason


def test_a_plain_process_is_no_rank(make_spec: Any) -> None:
    spec = make_spec(
        launcher="plain", slot_type="cuda", slots=[1, 3], environment={"RANK": "0", "A": "1"}
    )
    place = dataclasses.replace(PLACE, attach_path="/attach")
    (command,) = build_commands(spec, place, rendezvous=None)
    assert (command.local_rank, command.rank) == (0, 0)
    assert command.argv == ["/venv/bin/python", "main.py"]
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert command.environment["MUSTER_ATTACH"].split() == ["steps", *LIBRARIES]
    assert command.environment["MUSTER_ATTACH_UNRANKED"] == "1"
    assert command.environment["PYTHONPATH"] == "/attach"
    ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "PET_", "NNODES")
    assert not [name for name in command.environment if name.startswith(ranks)]
    (program,) = build_commands(
        make_spec(launcher="plain", entrypoint=["bash", "run.sh"]), PLACE, rendezvous=None
    )
    assert program.argv == ["bash", "run.sh"]


def test_a_shell_script_runs_once_per_node_with_the_usual_names(make_spec: Any) -> None:
    spec = make_spec(
        launcher="shell",
        entrypoint=["bash", "run.sh", "--fast"],
        num_nodes=2,
        node_rank=1,
        rank_offset=2,
        world_size=4,
        environment={"NUM_NODES": "mine", "PET_NNODES": "2", "WORLD_SIZE": "2"},
    )
    place = dataclasses.replace(
        PLACE, launchers_path="/a/bin", hostfile="/a/hostfile", inherited={"PATH": "/venv/bin"}
    )
    (command,) = build_commands(spec, place, rendezvous=MEETING)
    assert command.local_rank == -1
    assert command.argv == ["bash", "run.sh", "--fast"]
    usual = {
        "MASTER_ADDR": "10.0.0.4",
        "MASTER_PORT": "40123",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "2",
        "GPUS_PER_NODE": "2",
        "NUM_NODES": "mine",
        "MUSTER_HOSTFILE": "/a/hostfile",
        "PATH": "/a/bin:/venv/bin",
    }
    assert usual.items() <= command.environment.items()
    ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_", "PET_")
    assert not [name for name in command.environment if name.startswith(ranks)]


def test_torchrun_of_the_user_is_the_interpreters_and_writes_logs_per_worker(
    make_spec: Any,
) -> None:
    spec = make_spec(launcher="shell", entrypoint=["torchrun", "--max-restarts=1", "train.py"])
    (command,) = build_commands(spec, PLACE, rendezvous=MEETING)
    assert command.argv == [
        "/venv/bin/python",
        "-m",
        "torch.distributed.run",
        "--nnodes=1",
        "--nproc-per-node=2",
        "--node-rank=0",
        "--master-addr=10.0.0.4",
        "--master-port=40123",
        "--log-dir=/a/logs/torchrun",
        "--redirects=3",
        "--max-restarts=1",
        "train.py",
    ]
    left = make_spec(
        launcher="shell",
        entrypoint=["torchrun", "train.py"],
        config={"launcher_help": False},
    )
    (command,) = build_commands(left, PLACE, rendezvous=MEETING)
    assert command.argv == ["torchrun", "train.py"]


def test_values_stand_for_variables_in_arguments_and_variables(make_spec: Any) -> None:
    spec = make_spec(
        launcher="torchrun",
        entrypoint=["train.py", "--out=${MUSTER_CHECKPOINT_DIR}/x", "$HOME ${OTHER} ${NODE_RANK}"],
        environment={"RUN": "trial-${MUSTER_TRIAL_ID}", "PATH": "/mine:${PATH}", "A": "${RUN} $5"},
    )
    place = dataclasses.replace(PLACE, inherited={"PATH": "/venv/bin", "HOME": "/home/ada"})
    (command,) = build_commands(spec, place, rendezvous=None)
    # What is not known to every job stays as it is.
    assert command.argv[-2:] == ["--out=/storage/trial-7/x", "$HOME ${OTHER} ${NODE_RANK}"]
    assert command.environment["RUN"] == "trial-7"
    assert command.environment["PATH"] == "/mine:/venv/bin"
    assert command.environment["A"] == "${RUN} $5"
    shell = make_spec(launcher="shell", entrypoint=["tool", "${NODE_RANK}:${MASTER_PORT}"])
    (command,) = build_commands(shell, place, rendezvous=MEETING)
    assert command.argv == ["tool", "0:40123"]
    assert why_cold(spec) == "environment.variables.PATH differs from trial to trial"


def test_a_variable_continues_the_value_that_the_job_has_without_it(make_spec: Any) -> None:
    spec = make_spec(
        launcher="torchrun",
        entrypoint=["train.py"],
        environment={"LD_LIBRARY_PATH": "/x:${LD_LIBRARY_PATH}", "OMP_NUM_THREADS": "${OMP_NUM_THREADS}0",
                     "OTHER": "a${OTHER}b${TOKEN}"},
    )  # fmt: skip
    place = dataclasses.replace(
        PLACE, inherited={"LD_LIBRARY_PATH": "/lib"}, secrets={"TOKEN": "hidden"}
    )
    (command,) = build_commands(spec, place, rendezvous=None)
    found = command.environment
    assert found["LD_LIBRARY_PATH"] == "/x:/lib"
    assert found["OMP_NUM_THREADS"] == "10"
    assert found["OTHER"] == "ab${TOKEN}", "a secret is put into no other variable"
    assert "differs from trial to trial" in why_cold(
        make_spec(launcher="torchrun", environment={"A": "${A}x"})
    )


def test_data_sets_are_named_by_variables(make_spec: Any) -> None:
    spec = make_spec(
        launcher="torchrun",
        entrypoint=["train.py", "${MUSTER_DATA_VAL_2}"],
        config={"data": {"train": "/shared/imagenet", "val_2": "s3://bucket/val"}},
    )
    (command,) = build_commands(spec, PLACE, rendezvous=None)
    assert command.environment["MUSTER_DATA_TRAIN"] == "/shared/imagenet"
    assert command.argv[-1] == "s3://bucket/val"
    warm = build_warm(spec, PLACE, run_id="r")
    assert warm.own["MUSTER_DATA_TRAIN"] == "/shared/imagenet"


def test_ipv6_rendezvous_is_bracketed(make_spec: Any) -> None:
    meeting = wire.Rendezvous(host="fd00::4", port=1, run_id="r")
    (command,) = build_commands(
        make_spec(launcher="torchrun", num_nodes=2), PLACE, rendezvous=meeting
    )
    assert "--rdzv-endpoint=[fd00::4]:1" in command.argv


def test_gang_without_rendezvous_is_a_programmers_error(make_spec: Any) -> None:
    with pytest.raises(ValueError, match="needs a rendezvous"):
        build_commands(make_spec(launcher="torchrun", num_nodes=2), PLACE, rendezvous=None)
    with pytest.raises(ValueError, match="needs a rendezvous"):
        build_commands(make_spec(launcher="direct"), PLACE, rendezvous=None)


def test_direct_workers_get_torchruns_variables(make_spec: Any) -> None:
    spec = make_spec(num_nodes=2, node_rank=1, rank_offset=2, world_size=4, entrypoint=["a.py"])
    commands = build_commands(spec, PLACE, rendezvous=MEETING)
    assert [c.argv for c in commands] == [["/venv/bin/python", "a.py"]] * 2
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_ERROR_FILE",
    )
    assert [commands[1].environment[name] for name in names] == [
        "3",
        "1",
        "4",
        "2",
        "1",
        "2",
        "10.0.0.4",
        "40123",
        "muster-7.1",
        "/a/logs/direct/1/error.json",
    ]


def test_worker_environment(make_spec: Any) -> None:
    (command,) = build_commands(make_spec(launcher="torchrun"), PLACE, rendezvous=None)
    assert command.environment == {
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "10",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "KINETO_LOG_LEVEL": "6",
        "GLOO_SOCKET_IFNAME": "lo",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_FR_DUMP_TEMP_FILE": "/w/files/muster-outputs/flight-recorder-1-rank-",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/w/files/muster-outputs/flight-recorder-1-rank-",
        "TORCHINDUCTOR_CACHE_DIR": "/a/cache/inductor",
        "TRITON_CACHE_DIR": "/a/cache/triton",
        "CUDA_VISIBLE_DEVICES": "",
        "MUSTER_ALLOCATION_ID": "a1",
        "MUSTER_ATTEMPT_NO": "1",
        "MUSTER_CHECKPOINT_DIR": "/storage/trial-7",
        "MUSTER_CHECKPOINT_URL": "",
        "MUSTER_CHECKPOINT_LOCAL": "",
        "MUSTER_CONFIG_FILE": "/a/config.json",
        "MUSTER_EXPERIMENT_ID": "3",
        "MUSTER_NODE_RANK": "0",
        "MUSTER_REPORT_SOCKET": "/tmp/s/report",
        "MUSTER_RESUME_FROM": "",
        "MUSTER_RESUME_STEP": "0",
        "MUSTER_SKIP_SAMPLES": "0",
        "MUSTER_OUTPUT_DIR": "/w/files/muster-outputs",
        "MUSTER_PROFILES_DIR": "/a/cache/profiles",
        "MUSTER_STACKS_DIR": "/a/cache/stacks",
        "MUSTER_TRIAL_ID": "7",
        "MUSTER_TRIAL_NO": "2",
        "MUSTER_WEIGHTS_FROM": "",
        "MUSTER_WORLD_SIZE": "2",
        "ACCELERATE_USE_CPU": "true",
        "MUSTER_WORK_DIR": "/w/files",
        "GIT_CEILING_DIRECTORIES": "/",
    }


@pytest.mark.parametrize(
    ("launcher", "world_size", "num_threads", "found"),
    [
        ("plain", 2, 0, None),
        ("plain", 1, 6, "6"),
        ("shell", 1, 6, "6"),
        ("shell", 2, 6, "1"),
        ("direct", 2, 6, "1"),
        ("torchrun", 2, 6, "1"),
    ],
)
def test_a_process_that_is_alone_has_the_cores_of_its_slots(
    make_spec: Any, launcher: str, world_size: int, num_threads: int, found: str | None
) -> None:
    spec = make_spec(launcher=launcher, world_size=world_size, slots=list(range(world_size)))
    place = dataclasses.replace(PLACE, num_threads=num_threads)
    command, *_ = build_commands(spec, place, rendezvous=MEETING)
    assert command.environment.get("OMP_NUM_THREADS") == found


def test_a_plain_process_sees_nothing_of_a_launcher(make_spec: Any) -> None:
    spec = make_spec(launcher="plain", slots=[0], world_size=1)
    (command,) = build_commands(spec, PLACE, rendezvous=MEETING)
    starts = (
        "RANK",
        "LOCAL_",
        "WORLD_",
        "GROUP_",
        "ROLE_",
        "MASTER_",
        "TORCHELASTIC",
        "TORCH_ELASTIC",
        "PET_",
    )
    assert [name for name in command.environment if name.startswith(starts)] == []


def test_devices_are_named_by_uuid_where_it_is_known(make_spec: Any) -> None:
    """A number is another device's once one has fallen off the bus."""
    spec = make_spec(launcher="torchrun", slot_type="cuda", slots=[3, 1])
    place = dataclasses.replace(PLACE, gpus=("GPU-d", "MIG-b"), has_own_devices=True)
    (command,) = build_commands(spec, place, rendezvous=None)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "GPU-d,MIG-b"


def test_launchers_of_a_command_are_given_numbers_of_devices(make_spec: Any) -> None:
    """deepspeed reads them as integers."""
    spec = make_spec(
        launcher="shell", entrypoint=["bash", "run.sh"], slot_type="cuda", slots=[3, 1]
    )
    # The driver counts otherwise than the slots since a device has been missing.
    place = dataclasses.replace(PLACE, gpus=("GPU-d", "GPU-b"), device_numbers=(2, 0))
    (command,) = build_commands(spec, place, rendezvous=MEETING)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "2,0"
    unknown = dataclasses.replace(place, device_numbers=())
    (command,) = build_commands(spec, unknown, rendezvous=MEETING)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "GPU-d,GPU-b"


def test_users_variables_win_over_defaults_but_not_over_ranks(make_spec: Any) -> None:
    spec = make_spec(
        launcher="torchrun",
        slot_type="cuda",
        slots=[1, 3],
        environment={
            "OMP_NUM_THREADS": "4",
            "RANK": "9",
            "PET_NNODES": "7",
            "MUSTER_TRIAL_ID": "1",
            "CUDA_VISIBLE_DEVICES": "0",
        },
    )
    (command,) = build_commands(spec, PLACE, rendezvous=None)
    assert command.environment["OMP_NUM_THREADS"] == "4"
    assert command.environment["MUSTER_TRIAL_ID"] == "7"
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert "RANK" not in command.environment
    assert "PET_NNODES" not in command.environment


def test_sdk_folder_comes_first_on_the_path_of_another_interpreter(make_spec: Any) -> None:
    import dataclasses

    place = dataclasses.replace(PLACE, sdk_path="/sdk", inherited={"PYTHONPATH": "/mine"})
    (command,) = build_commands(make_spec(launcher="torchrun"), place, rendezvous=None)
    assert command.environment["PYTHONPATH"] == "/sdk:/mine"


def test_inheritable_leaves_out_ours_and_other_launchers() -> None:
    environment = {"PATH": "/bin", "MUSTER_AGENT_JOIN_TOKEN": "x", "RANK": "1", "PET_X": "1"}
    assert inheritable(environment) == {"PATH": "/bin"}


def test_a_shim_imports_nothing_that_the_agent_alone_needs() -> None:
    """It is started with every allocation, before anything else: a tenth of a second counts."""
    code = "import muster_agent.shim.supervise, sys; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"pydantic", "pydantic_settings", "httpx", "structlog", "numpy", "torch"}
    assert heavy & set(found.stdout.split()) == set()


def test_the_tracking_server_is_a_default_that_no_proxy_stands_before(make_spec: Any) -> None:
    place = dataclasses.replace(
        PLACE, tracking_uri="http://127.0.0.1:9", tracking_token="muster-x", inherited={}
    )

    def environment(inherited: dict[str, str], **of_user: str) -> dict[str, str]:
        spec = make_spec(launcher="plain", environment=of_user)
        (command,) = build_commands(
            spec, dataclasses.replace(place, inherited=inherited), rendezvous=None
        )
        return command.environment

    found = environment({})
    assert found["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:9"
    assert found["MLFLOW_TRACKING_TOKEN"] == "muster-x"
    assert "NO_PROXY" not in found
    assert "MLFLOW_TRACKING_TOKEN" not in session_environment(found)
    own = environment({}, MLFLOW_TRACKING_URI="https://other")
    assert "MLFLOW_TRACKING_TOKEN" not in own
    assert session_environment(own)["MLFLOW_TRACKING_URI"] == "https://other"
    proxied = environment({"HTTP_PROXY": "http://proxy", "NO_PROXY": "a.example"})
    assert proxied["NO_PROXY"] == "a.example,127.0.0.1"
    assert environment({"http_proxy": "p", "no_proxy": "b"})["no_proxy"] == "b,127.0.0.1"
    assert environment({"http_proxy": "p"})["NO_PROXY"] == "127.0.0.1"


def test_a_member_of_a_role_is_a_world_of_its_own_and_finds_the_others(make_spec: Any) -> None:
    spec = make_spec(
        launcher="direct", slots=[0, 1], world_size=2, rank_offset=3, node_rank=2,
        role="rollout", role_index=1, role_count=2,
    )  # fmt: skip
    addresses = {"trainer": "n1:21001", "rollout": "n1:21002,n2:21003"}
    place = dataclasses.replace(PLACE, address="n2:21003", addresses=addresses)
    commands = build_commands(spec, place, rendezvous=MEETING)
    ranks = [(c.environment["RANK"], c.environment["WORLD_SIZE"]) for c in commands]
    assert ranks == [("0", "2"), ("1", "2")]
    assert [c.rank for c in commands] == [3, 4]
    found = commands[0].environment
    assert found["GROUP_RANK"] == "0"
    assert {k: v for k, v in found.items() if k.startswith("MUSTER_ROLE")} == {
        "MUSTER_ROLE": "rollout",
        "MUSTER_ROLE_INDEX": "1",
        "MUSTER_ROLE_COUNT": "2",
        "MUSTER_ROLE_ADDRESS": "n2:21003",
        "MUSTER_ROLE_TRAINER_ADDRESSES": "n1:21001",
        "MUSTER_ROLE_ROLLOUT_ADDRESSES": "n1:21002,n2:21003",
    }
