"""Which device files a job on GPUs gets, and that a hostile one opens no other."""

from __future__ import annotations

import dataclasses
import functools
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster_agent.isolation import walls
from muster_agent.isolation.device_files import MigPart, device_files
from muster_agent.isolation.walls import Isolation

NULL = os.makedev(1, 3)


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """What the driver tells of two devices, whose minor numbers are not in the order of the bus."""
    folder = tmp_path / "driver"
    for pci, uuid, minor in (("0000:3b:00.0", "GPU-a", 1), ("0000:5e:00.0", "GPU-b", 0)):
        one = folder / "gpus" / pci
        one.mkdir(parents=True)
        (one / "information").write_text(
            f"Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nBus Location: \t {pci}\n"
            f"Device Minor: \t {minor}\nGPU Excluded:\t No\n"
        )
    access = folder / "capabilities/gpu1/mig/gi3"
    (access / "ci0").mkdir(parents=True)
    (access / "access").write_text("DeviceFileMinor: 30\nDeviceFileMode: 292\n")
    (access / "ci0" / "access").write_text("DeviceFileMinor: 31\nDeviceFileMode: 292\n")
    return folder


def make_dev(dev: Path) -> Path:
    """Make device files that do what /dev/null does, if this user may, else plain files."""
    names = ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    names += ["nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", "nvidia-caps/nvidia-cap40"]
    names += ["dri/renderD128", "dri/renderD129"]
    for name in names:
        (dev / name).parent.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.mknod(dev / name, stat.S_IFCHR | 0o666, NULL)
            (dev / name).chmod(0o666)
        else:
            (dev / name).touch()
    (dev / "dri/by-path").mkdir()
    (dev / "dri/by-path/pci-0000:3b:00.0-render").symlink_to("../renderD129")
    (dev / "dri/by-path/pci-0000:5e:00.0-render").symlink_to("../renderD128")
    return dev


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    return make_dev(tmp_path / "dev")


SHARED = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}


def names(found: tuple[str, ...], dev: Path) -> set[str]:
    return {str(Path(path).relative_to(dev)) for path in found}


def test_a_job_gets_the_files_of_its_devices_by_their_minor_numbers(
    dev: Path, driver: Path
) -> None:
    one = device_files(["GPU-a"], dev=dev, driver=driver)
    assert names(one, dev) == {"nvidia1", "dri/renderD129", *SHARED}
    both = device_files(["GPU-a", "GPU-b"], dev=dev, driver=driver)
    assert {"nvidia0", "nvidia1"} <= names(both, dev)
    assert names(device_files([], dev=dev, driver=driver), dev) == SHARED


def test_a_mig_instance_comes_with_its_capabilities_alone(dev: Path, driver: Path) -> None:
    expected = {"nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", *SHARED}
    old = device_files(["MIG-GPU-a/3/0"], dev=dev, driver=driver)
    new = device_files(
        ["MIG-c6d4f1ef"], dev=dev, driver=driver, ask_mig=lambda _: MigPart("GPU-a", 3, 0)
    )
    assert names(old, dev) == names(new, dev) == expected


@pytest.mark.parametrize("uuid", ["GPU-c", "MIG-GPU-b/3/0", "MIG-unknown"])
def test_without_the_file_of_a_device_none_is_given(dev: Path, driver: Path, uuid: str) -> None:
    with pytest.raises(OSError, match=r"does not tell|No such file"):
        device_files([uuid], dev=dev, driver=driver)


def test_without_the_driver_there_is_nothing_to_give_but_devices_of_amd(tmp_path: Path) -> None:
    assert device_files(["GPU-a"], dev=tmp_path, driver=tmp_path) == ()
    (tmp_path / "kfd").touch()
    assert device_files([], dev=tmp_path, driver=tmp_path) == (str(tmp_path / "kfd"),)


HOSTILE = """
import os, sys
dev = sys.argv[1]
def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return True
    except OSError:
        return False
def makes(path, number):
    try:
        os.mknod(path, 0o20666, number)
        return opens(path)
    except OSError:
        return False
found = [name for name in sys.argv[2:] if opens(f"{dev}/{name}")]
found += [f"outside:{name}" for name in sys.argv[2:] if opens(f"/proc/1/root{dev}/{name}") and name not in found]
found += [f"made:{where}" for where in ("/tmp/made", f"{dev}/made") if makes(where, os.makedev(1, 3))]
print(" ".join(found), sorted(os.listdir(dev)))
"""


@pytest.fixture
def shared_dev() -> Iterator[Path]:
    """A folder of device files in /dev: the sandbox has a /tmp of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can make device files")
    folder = Path(f"/dev/muster-test-{os.getpid()}")
    folder.mkdir(mode=0o755)
    yield make_dev(folder)
    shutil.rmtree(folder)


def test_a_hostile_job_opens_its_own_device_alone(
    shared_dev: Path,
    driver: Path,
    sandbox: Isolation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        walls, "device_files", functools.partial(device_files, dev=shared_dev, driver=driver)
    )
    own = dataclasses.replace(sandbox, gpus=["GPU-a"])
    (tmp_path / "job-tmp").mkdir()
    inside = walls.make_walls(own, tmp=tmp_path / "job-tmp")
    every = [str(p.relative_to(shared_dev)) for p in shared_dev.rglob("*") if p.is_char_device()]
    argv = [sys.executable, "-I", "-c", HOSTILE, str(shared_dev), *every]
    done = walls.run(inside, argv, environment={"PATH": walls.OUTER_PATH}, timeout=60)
    assert done.stderr == b""
    opened, _, listed = done.stdout.decode().partition(" [")
    assert set(opened.split()) == {"nvidia1", "dri/renderD129", *SHARED}
    assert listed.strip() == ("'dri', 'nvidia-uvm', 'nvidia-uvm-tools', 'nvidia1', 'nvidiactl']")


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("pass", ""),
        ("import os\nif os.getpid() < 9: raise SystemExit('error 100')", "error 100"),
        ("raise SystemExit('no driver')", ""),
    ],
)
def test_cuda_is_tried_behind_walls_before_they_are_the_default(
    sandbox: Isolation, monkeypatch: pytest.MonkeyPatch, program: str, problem: str
) -> None:
    # Low numbers of processes are those of the sandbox.
    monkeypatch.setattr(walls, "_USES_CUDA", program)
    found = walls.probe_devices(dataclasses.replace(sandbox, gpus=[]))
    assert bool(found) == bool(problem)
    if problem:
        assert found.startswith(f"CUDA works on this machine, but not in a sandbox: {problem}.")
