"""What a job sees of the environment of its agent."""

from __future__ import annotations

import json
import os
import re
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from muster_agent.cli import main
from muster_agent.environments.interpreters import activated
from muster_agent.isolation.variables import PASSED, communication_variables, passed, withheld
from muster_agent.settings import AgentSettings

OUTER_JOB = {
    "SLURM_JOB_ID": "17",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURMD_NODENAME": "n1",
    "SRUN_DEBUG": "3",
    "SBATCH_PARTITION": "main",
    "PMI_RANK": "0",
    "PMIX_RANK": "0",
}
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "canary-1",
    "GITHUB_TOKEN": "canary-2",
    "WANDB_API_KEY": "canary-3",
    "DATABASE_URL": "postgresql://muster:canary-4@db/muster",
    "HTTPS_PROXY": "http://ada:canary-5@proxy:3128",
    "NCCL_NET_AUTH_TOKEN": "canary-6",
    "MUSTER_ADMIN_PASSWORD": "canary-7",
}
GIVEN = {"NCCL_DEBUG": "WARN", "LC_TIME": "C", "no_proxy": "localhost", "SSL_CERT_FILE": "/ca.pem"}

LOOK = """
import json, os, time
def read(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return file.read().decode(errors="replace")
# Its own, and those of all that run under the same user between it and the agent.
around, pid = [], os.getppid()
while pid > 1:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        command = file.read().decode(errors="replace")
    if "muster_agent.cli" in command:
        break
    around.append([command, read(pid)])
    with open(f"/proc/{pid}/stat") as file:
        pid = int(file.read().rpartition(")")[2].split()[1])
with open("seen.new", "w") as file:
    json.dump({"own": dict(os.environ), "around": around}, file)
os.replace("seen.new", "seen")
"""


@pytest.mark.parametrize("kind", ["new interpreter", "warm parent"])
def test_a_job_sees_what_is_listed_and_nothing_else(
    plane: Any, agent: Any, make_spec: Any, code: Any, tmp_path: Path, kind: str
) -> None:
    agent.kill()
    agent.environment = {
        **SECRETS,
        **GIVEN,
        "MUSTER_AGENT_PASS_ENVIRONMENT": "SITE_*",
        "SITE_SCRATCH": "/scratch",
        "MUSTER_AGENT_WARM_WORKERS": "all",
    }
    agent.start()
    how = {"launcher": "direct"} if kind == "new interpreter" else {"launcher": "torchrun"}
    plane.want(make_spec(code=code(LOOK), **how))
    assert agent.wait_exit("a1").exit_code == 0
    seen = json.loads((tmp_path / "code" / "seen").read_text())
    assert GIVEN.items() <= seen["own"].items()
    assert seen["own"]["SITE_SCRATCH"] == "/scratch"
    programs = str(Path(sys.executable).parent)
    others = [folder for folder in os.environ["PATH"].split(":") if folder != programs]
    assert seen["own"]["PATH"].split(":") == [programs, *others]
    assert not SECRETS.keys() & seen["own"].keys()
    assert seen["around"]  # its shim at least
    assert re.findall("canary-[0-9]", json.dumps(seen)) == []
    log = agent.words()
    assert ("warm_parent_started" in log) == (kind == "warm parent")


def test_programs_of_the_interpreters_environment_come_first(shims: Any, tmp_path: Path) -> None:
    venv.create(tmp_path / "own", symlinks=True)
    tool = tmp_path / "own" / "bin" / "ninja"
    tool.write_text("#!/bin/sh\necho of the environment\n")
    tool.chmod(0o755)
    shim = shims(
        "import os, subprocess, sys\n"
        "print(os.environ['VIRTUAL_ENV'], sys.prefix, flush=True)\n"
        "subprocess.run(['ninja'], check=True)\n",
        python=str(tmp_path / "own" / "bin" / "python"),
        slots=[0],
        world_size=1,
        environment={"VIRTUAL_ENV": "/of/the/agent", "CONDA_DEFAULT_ENV": "base"},
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    own = str(tmp_path / "own")
    assert shim.printed(0) == f"{own} {own}\nof the environment\n"


AS_WRITTEN = {
    "PEM": "-----BEGIN KEY-----\nMII=\n\n-----END KEY-----\n",
    "JSON": '{"a": ["b\\n", \'c\']}',
    "EQUAL": "b=c",
    "PRICE": "$5 ${OTHER} $(date) `id` \\ % * \t é",
    "LONG": "x" * 32_768,
    "EMPTY": "",
}
SHOW = "import json, os, sys; print(json.dumps({n: os.environ.get(n) for n in sys.argv[1:]}))"


@pytest.mark.parametrize("launcher", ["direct", "plain", "shell"])
def test_variables_arrive_byte_by_byte(shims: Any, tmp_path: Path, launcher: str) -> None:
    command = ["show", *AS_WRITTEN] if launcher == "shell" else ["main.py", *AS_WRITTEN]
    tool = tmp_path / "tools" / "show"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} main.py "$@"\n')
    tool.chmod(0o755)
    shim = shims(
        SHOW,
        launcher=launcher,
        entrypoint=command,
        variables={**AS_WRITTEN, "PATH": f"{tool.parent}:${{PATH}}"},
        slots=[0],
        world_size=1,
    )
    shim.start()
    assert shim.wait_exit().cause == "success"
    log = shim.folder.logs / "launcher" / "stdout.log" if launcher == "shell" else shim.log(0)
    assert json.loads(log.read_text()) == AS_WRITTEN


def test_a_system_interpreter_has_no_virtual_environment(tmp_path: Path) -> None:
    base = str(Path(sys.base_prefix) / "bin" / "python3")
    given = activated({"PATH": "/a:/b", "VIRTUAL_ENV": "/of/the/agent", "X": "1"}, base)
    assert given == {"PATH": f"{Path(base).parent}:/a:/b", "X": "1"}
    environment = {"PATH": "/a", "VIRTUAL_ENV": "/v"}
    assert activated(environment, "/nowhere/python") == environment


def test_the_list_and_what_is_left_out_of_it() -> None:
    everything = {**SECRETS, **GIVEN, "PATH": "/bin", "HTTP_PROXY": "http://proxy:3128"}
    given = passed(everything)
    assert given == {**GIVEN, "PATH": "/bin", "HTTP_PROXY": "http://proxy:3128"}
    assert withheld(everything) == sorted(set(SECRETS) - {"MUSTER_ADMIN_PASSWORD"})
    assert passed(everything, ["AWS_*"])["AWS_SECRET_ACCESS_KEY"] == "canary-1"
    # As it was before there was a list; the agent's own settings are never passed.
    assert passed(everything, ["*"]).keys() == everything.keys() - {"MUSTER_ADMIN_PASSWORD"}
    assert passed({"HTTP_PROXY": "ada:canary@proxy"}) == {}
    assert passed({"HTTP_PROXY": "http://[proxy"}) == {}  # unreadable, so perhaps with a password


def test_the_setting_takes_names_and_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_AGENT_SERVER_URL", "http://h:1")
    monkeypatch.setenv("MUSTER_AGENT_PASS_ENVIRONMENT", "WANDB_API_KEY, AWS_*,")
    assert AgentSettings().pass_environment == ("WANDB_API_KEY", "AWS_*")  # type: ignore[call-arg]
    monkeypatch.setenv("MUSTER_AGENT_PASS_ENVIRONMENT", "A;B")
    with pytest.raises(ValueError, match="'A;B' is neither"):
        AgentSettings()  # type: ignore[call-arg]


def test_check_lists_names_and_no_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in {**SECRETS, **GIVEN}.items():
        monkeypatch.setenv(name, value)
    home = ["--home", str(tmp_path), "--slots", "1", "--slot-type", "cpu"]
    assert main(["check", "--server", "http://127.0.0.1:1", *home]) == 0
    text = capsys.readouterr().out
    said = json.loads(text)["environment"]
    assert GIVEN.keys() <= set(said["passed"])
    assert {"AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY"} <= set(said["withheld"])
    assert "canary" not in text


def test_the_guide_shows_the_whole_list() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "agents.md").read_text()
    for group in PASSED:
        names = ", ".join(f"`{name}`" for name in group.names)
        assert f"| {group.what} | {names} |" in guide


@pytest.mark.parametrize("more", [[], ["*"], ["SLURM_*", "P*"]])
def test_no_pattern_passes_what_says_that_srun_has_started_a_process(more: list[str]) -> None:
    """Lightning, Accelerate and submitit would take each worker for a task of the pilot's job."""
    assert passed(OUTER_JOB, more) == {}
    assert withheld(OUTER_JOB, more) == sorted(OUTER_JOB)
    assert passed(OUTER_JOB, [*more, "SLURM_JOB_ID"]) == {"SLURM_JOB_ID": "17"}


def test_the_variables_of_communication_are_shown_without_secrets() -> None:
    given = {"NCCL_ALGO": "Ring", "NCCL_NET_AUTH_TOKEN": "s", "HOME": "/h", "GLOO_X": "y" * 1_000}
    assert communication_variables(given) == {"GLOO_X": "y" * 500, "NCCL_ALGO": "Ring"}
