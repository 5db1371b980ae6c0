"""Jobs in containers of rootless Podman: the tests of containers once more, as a user without rights.

The user exists for this test alone. It has a range of user ids of its own, as `useradd` gives it, and
nothing else that an agent of a person on a shared machine would not have.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SYSTEM_PYTHON = Path("/usr/bin/python3")
TESTS = (
    "tests/agent/test_containers.py::test_ranks_in_a_container_run_to_success_report_and_leave_nothing",
    "tests/agent/test_containers.py::test_nothing_survives_the_death_of_what_runs_a_container",
    "tests/agent/test_containers.py::test_requirements_and_setup_are_laid_over_the_image",
    "tests/agent/test_containers.py::test_a_job_that_exceeds_a_limit_ends_with_it_as_the_reason",
    "tests/agent/test_pulls.py",
)

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def user() -> Iterator[pwd.struct_passwd]:
    """A user without rights, whose home is short enough for the paths of sockets."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a user")
    for program in ("podman", "newuidmap", "useradd", "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    name = f"mr{os.getpid()}"
    parent = Path(tempfile.mkdtemp(prefix="mr-", dir="/tmp"))
    parent.chmod(0o755)
    for file in ("/etc/subuid", "/etc/subgid"):
        Path(file).touch()  # useradd writes into them, and makes neither.
    home = parent / "h"
    subprocess.run(
        ["useradd", "--create-home", "--home-dir", str(home), "--shell", "/bin/sh", name],
        check=True,
    )
    try:
        yield pwd.getpwnam(name)
    finally:
        uid = pwd.getpwnam(name).pw_uid
        for process in psutil.process_iter(["uids"]):
            # The process that keeps its user namespace stays on purpose.
            if process.info["uids"] is not None and process.info["uids"].real == uid:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        subprocess.run(["userdel", name], check=True, capture_output=True)
        shutil.rmtree(parent, ignore_errors=True)


def test_jobs_run_in_containers_of_a_user_without_rights(user: pwd.struct_passwd) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = [SYSTEM_PYTHON, "-c", "import platform; print(platform.python_version())"]
    if not SYSTEM_PYTHON.exists() or not (
        subprocess.check_output(asked, text=True).startswith(f"{version}.")
    ):
        pytest.skip(f"{SYSTEM_PYTHON} is not Python {version}, and no other is open to all users")
    home = Path(user.pw_dir)
    conf = home / ".config" / "containers" / "storage.conf"
    conf.parent.mkdir(parents=True)
    # Podman picks a driver that copies the image for every container.
    conf.write_text('[storage]\ndriver = "overlay"\n')
    (home / "run").mkdir(mode=0o700)
    for path in home.rglob("*"):
        os.chown(path, user.pw_uid, user.pw_gid)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "XDG_RUNTIME_DIR": str(home / "run"),
        "TMPDIR": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(
            str(p) for p in (ROOT / "trainer", ROOT / "agent", ROOT / "tests", packages)
        ),
        "MUSTER_TEST_ENGINE": "podman",
    }
    done = subprocess.run(
        [
            "setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", "--",
            str(SYSTEM_PYTHON), "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs",
            f"--basetemp={home / 't'}", *TESTS,
        ],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout[-500:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]
