"""The commands with which containers are started and entered, and what a job's environment becomes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from conftest import make_spec
from muster.document.running import EnvironmentSection
from muster.image_names import full_name
from muster_agent.containers.images import pull_file_command
from muster_agent.isolation.cdi import undescribed
from muster_agent.isolation.containers import (
    Container,
    Engine,
    Mount,
    exec_argv,
    registry_of,
    run_argv,
)
from muster_agent.isolation.levels import Walls, enter
from muster_agent.isolation.variables import not_of_machine
from muster_agent.isolation.walls import Isolation
from muster_agent.jobs.launch import LaunchContext, build_commands, why_cold
from muster_agent.shim.failures import PrepareFailed
from muster_agent.shim.preparation.image import check_plain

PODMAN = Engine(kind="podman", path="/usr/bin/podman")
APPTAINER = Engine(kind="apptainer", path="/usr/bin/apptainer", is_rootless=True, has_limits=False)
DOCKER = Engine(kind="docker", path="/usr/bin/docker")


def make_container(engine: Engine = PODMAN, **changes: Any) -> Container:
    made = Container(
        engine=engine,
        image="3f5b",
        name="muster-0a-a1",
        owner="0a",
        allocation_id="a1",
        python="python3",
        marks={"MUSTER_ALLOCATION_ID": "a1", "MUSTER_OWNER": "0a@host"},
        shm_bytes=1024,
    )
    return dataclasses.replace(made, **changes)


def argv_of(container: Container, **changes: Any) -> str:
    given: dict[str, Any] = {
        "user": 0, "is_confined": False, "read": (), "write": (), "tmp": "/s/tmp", "devices": (),
    }  # fmt: skip
    return " ".join(run_argv(container, ["python3", "-I", "x.py"], **{**given, **changes}))


def test_a_container_is_started_in_the_foreground_by_the_id_of_its_image() -> None:
    assert argv_of(make_container()) == (
        "/usr/bin/podman run --name muster-0a-a1 --init --pull never --network host "
        "--log-driver none --label muster.owner=0a --label muster.allocation=a1 --user 0:0 "
        "--workdir / --security-opt label=disable --shm-size 1024 --pids-limit -1 "
        "--env MUSTER_ALLOCATION_ID=a1 --env MUSTER_OWNER=0a@host "
        "--env MUSTER_CONTAINER=muster-0a-a1 --volume /s/tmp:/tmp:rw "
        "--entrypoint python3 3f5b -I x.py"
    )


def test_walls_with_a_container_are_that_container_and_nothing_else() -> None:
    walls = Walls(
        level="sandbox",
        uid=400_003,
        tmp="/s/tmp",
        read=("/code",),
        container=make_container(DOCKER),
    )
    argv = enter(walls, ["python3", "x.py"])
    assert argv[:2] == ["/usr/bin/docker", "run"]
    text = " ".join(argv)
    assert "--user 400003:400003" in text
    assert "--security-opt no-new-privileges --cap-drop all" in text
    assert "--volume /code:/code:ro" in text
    assert "bwrap" not in text


def test_outer_mounts_come_first_and_do_not_replace_what_the_job_is_given() -> None:
    mounts = [Mount.parse(text) for text in ("/data", "/scratch/ann:/w:rw", "/etc/x:/w/code:rw")]
    text = argv_of(make_container(mounts=mounts), read=["/w/code/lib"], write=["/w/code"])
    assert text.index("/data:/data:ro") < text.index("/w/code:/w/code:rw")
    assert text.index("/scratch/ann:/w:rw") < text.index("/w/code:/w/code:rw")
    assert text.index("/w/code:/w/code:rw") < text.index("/w/code/lib:/w/code/lib:ro")
    assert "/etc/x" not in text


@pytest.mark.parametrize(
    ("text", "source", "target", "is_writable"),
    [
        ("/data", "/data", "/data", False),
        ("/data:rw", "/data", "/data", True),
        ("/a:/b", "/a", "/b", False),
        ("/a:/b:ro", "/a", "/b", False),
        ("/a:/b:rw", "/a", "/b", True),
    ],
)
def test_mounts_are_read_only_unless_they_say_otherwise(
    text: str, source: str, target: str, is_writable: bool
) -> None:
    assert Mount.parse(text) == Mount(source=source, target=target, is_writable=is_writable)


def test_limits_are_given_to_engines_that_keep_them_only() -> None:
    limited = make_container(memory_bytes=2**30)
    text = argv_of(limited)
    assert "--pids-limit -1 --memory 1073741824 --memory-swap 1073741824" in text
    deaf = dataclasses.replace(PODMAN, has_limits=False)
    assert "--memory" not in argv_of(dataclasses.replace(limited, engine=deaf))


def test_a_description_that_does_not_name_a_device_is_found(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text("devices:\n- name: '0'\n- name: GPU-b\n- name: MIG-d\n")
    found = undescribed(["GPU-b", "GPU-c", "MIG-d"], folders=[str(tmp_path)])
    assert found == ["GPU-c"]


def test_gpus_are_given_by_cdi_where_they_are_described_and_by_docker_else() -> None:
    gpus = ["GPU-b", "MIG-d"]
    assert '--gpus "device=GPU-b,MIG-d"' in argv_of(make_container(DOCKER, gpus=gpus))
    cdi = dataclasses.replace(PODMAN, has_cdi=True)
    text = argv_of(make_container(cdi, gpus=gpus), devices=("/dev/nvidia0", "/dev/infiniband"))
    assert "--device nvidia.com/gpu=GPU-b --device nvidia.com/gpu=MIG-d" in text
    assert "/dev/nvidia0" not in text  # All GPUs of the node, not those of its slots.
    assert "--device /dev/infiniband --ulimit memlock=-1:-1" in text


@pytest.mark.parametrize(
    ("rootless", "uid", "own", "expected"),
    [
        (True, None, 1000, 0),
        (False, None, 1000, 1000),
        (False, None, 0, 0),
        (False, 400_001, 0, 400_001),
    ],
)
def test_a_job_writes_its_files_as_the_agents_user_or_its_projects(
    rootless: bool, uid: int | None, own: int, expected: int
) -> None:
    engine = dataclasses.replace(PODMAN, is_rootless=rootless)
    assert engine.user(uid, own=own) == expected


def test_a_command_inside_a_container_gets_a_terminal_if_it_has_one() -> None:
    argv = exec_argv(make_container(), ["python3", "x"], user=0, has_terminal=True)
    assert " ".join(argv) == (
        "/usr/bin/podman exec --interactive --tty --user 0:0 muster-0a-a1 python3 x"
    )
    assert "--tty" not in exec_argv(make_container(), ["sh"], user=0, has_terminal=False)


@pytest.mark.parametrize(
    ("name", "full", "registry"),
    [
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04", "https://index.docker.io/v1/"),
        ("pytorch/pytorch", "docker.io/pytorch/pytorch", "https://index.docker.io/v1/"),
        ("ghcr.io/o/n@sha256:ab", "ghcr.io/o/n@sha256:ab", "ghcr.io"),
        ("localhost/x:1", "localhost/x:1", "localhost"),
        ("reg:5000/x", "reg:5000/x", "reg:5000"),
    ],
)
def test_an_image_without_a_registry_is_one_of_docker_hub(
    name: str, full: str, registry: str
) -> None:
    assert (full_name(name), registry_of(name)) == (full, registry)


def test_a_container_gets_no_variable_that_names_files_of_the_node() -> None:
    agents = {
        "PATH": "/opt/bin", "HOME": "/home/ann", "PYTHONPATH": "/x", "LD_LIBRARY_PATH": "/y",
        "CUDA_HOME": "/usr/local/cuda", "NCCL_SOCKET_IFNAME": "ib0", "HTTPS_PROXY": "http://p:3128",
        "LANG": "C.UTF-8", "OMP_NUM_THREADS": "4", "MY_OWN": "kept",
    }  # fmt: skip
    assert not_of_machine(agents) == {
        "NCCL_SOCKET_IFNAME": "ib0", "HTTPS_PROXY": "http://p:3128", "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "4", "MY_OWN": "kept",
    }  # fmt: skip


def test_devices_in_a_container_are_numbered_from_zero_and_workers_start_cold() -> None:
    spec = make_spec(
        slots=[2, 3],
        slot_type="cuda",
        launcher="plain",
        config={"name": "n", "environment": {"image": "ghcr.io/o/n:1"}},
    )
    place = LaunchContext(
        python="python3", work_dir="/w", logs_dir="/l", report_socket="/s", config_file="/c",
        checkpoint_dir="/p", resume_from="", weights_from="", cache_dir="/k", has_own_devices=True,
    )  # fmt: skip
    (command,) = build_commands(spec, place, rendezvous=None)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert why_cold(dataclasses.replace(spec, launcher="torchrun")) == (
        "an image starts them in a container"
    )


def test_apptainer_is_given_the_same_paths_and_marks() -> None:
    container = make_container(
        APPTAINER,
        image="/home/agent/images/ab.sif",
        mounts=[Mount.parse("/data"), Mount.parse("/scratch/ann:/scratch:rw")],
        memory_bytes=10**9,
    )
    assert argv_of(container, read=["/code"], write=["/w"]) == (
        "/usr/bin/apptainer exec --contain --ipc --cleanenv --no-home --pwd / "
        "--env MUSTER_ALLOCATION_ID=a1 --env MUSTER_OWNER=0a@host --env MUSTER_CONTAINER=muster-0a-a1 "
        "--bind /code:/code:ro --bind /data:/data:ro --bind /scratch/ann:/scratch:rw "
        "--bind /s/tmp:/tmp:rw --bind /w:/w:rw /home/agent/images/ab.sif python3 -I x.py"
    )
    gpus = argv_of(
        dataclasses.replace(container, gpus=["GPU-b"]),
        is_confined=True,
        devices=["/dev/infiniband", "/dev/nvidia0", "/dev/nvidiactl"],
    )
    assert "--pwd / --no-privs --nv --env" in gpus
    assert "--bind /dev/infiniband:/dev/infiniband" in gpus
    assert "/dev/nvidia" not in gpus
    assert APPTAINER.user(None, own=1000) == 1000


@pytest.mark.parametrize(
    ("name", "login", "source"),
    [
        ("docker.io/library/python:3.12", "", "docker://docker.io/library/python:3.12"),
        ("reg.example:5000/a/b:1@sha256:0f", "", "docker://reg.example:5000/a/b@sha256:0f"),
        ("ghcr.io/a/b@sha256:0f", "ann:pass:word", "docker://ghcr.io/a/b@sha256:0f"),
    ],
)
def test_apptainer_pulls_into_a_file_with_a_login_that_no_command_line_shows(
    tmp_path: Path, name: str, login: str, source: str
) -> None:
    argv, variables = pull_file_command(APPTAINER, name, login=login, target=tmp_path / "x")
    assert argv == ["/usr/bin/apptainer", "pull", "--force", str(tmp_path / "x"), source]
    assert variables.get("APPTAINER_DOCKER_PASSWORD", "") == login.partition(":")[2]
    assert variables == {} or variables["SINGULARITY_DOCKER_USERNAME"] == "ann"


@pytest.mark.parametrize(
    ("section", "uid", "words"),
    [
        ({"network": "none"}, None, "gives containers the network of the host"),
        ({"shm_size": "1GiB"}, None, "cannot set the size of /dev/shm"),
        ({}, 400_001, "starts no container"),
    ],
)
def test_what_apptainer_cannot_do_is_refused_before_the_start(
    section: dict[str, str], uid: int | None, words: str
) -> None:
    wanted = EnvironmentSection(image="a/b", **section)  # type: ignore[arg-type]
    with pytest.raises(PrepareFailed, match=words):
        check_plain(wanted, Isolation(uid=uid))
    check_plain(EnvironmentSection(image="a/b"), Isolation())
