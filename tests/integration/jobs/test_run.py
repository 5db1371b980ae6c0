"""`muster run` on a real stack: what it prints, how it ends, and what Ctrl-C leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.cli.exit_codes import EXIT_FAILED
from muster.client import Client
from support.stack import Stack, wait_for

SCRIPT = """
import os, sys, time
print("rank", os.environ.get("RANK"), os.environ.get("WORD"), *sys.argv[1:], flush=True)
print("to stderr", file=sys.stderr, flush=True)
if "--sleep" in sys.argv:
    time.sleep(300)
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "data.bin").write_bytes(b"x" * 2000)
    (tmp_path / ".gitignore").write_text("*.bin\n")
    return tmp_path


def start(stack: Stack, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "muster.cli", "run", *arguments],
        cwd=folder,
        env=stack.environment(stack.home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(stack: Stack, folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = start(stack, folder, *arguments)
    out, err = process.communicate(timeout=90)
    return process.returncode, out, err


def test_a_command_line_runs_and_its_log_is_followed(
    stack: Stack, client: Client, folder: Path
) -> None:
    options = ("-n", "2", "--nodes", "2", "--launcher", "direct", "--env", "WORD=word")
    code, out, err = run(stack, folder, *options, "--", "python", "train.py", "--lr", "1e-3")
    assert code == 0, err
    assert sorted(out.splitlines()) == [
        "[rank 0] rank 0 word --lr 1e-3",
        "[rank 1] rank 1 word --lr 1e-3",
    ]
    said = err.splitlines()
    assert said[0].startswith("Code: 2 files, ")
    assert said[1].startswith("Left out by .gitignore: data.bin (2.0 kB).")
    assert said[2].startswith("Submitted experiment ")
    assert "[rank 0] to stderr" in said
    assert said[-1].endswith("(train) is COMPLETED")
    number = int(said[2].split()[2])
    config = client.experiment(number)["config"]
    assert config["entrypoint"] == ["train.py", "--lr", "1e-3"]
    assert (config["resources"]["slots"], config["resources"]["nodes"]) == (2, 2)


def test_it_ends_with_the_exit_code_of_the_job(stack: Stack, folder: Path) -> None:
    code, out, err = run(stack, folder, "-e", "CODE=7", "python", "train.py")
    assert code == 7, err
    assert out == "rank None None\n"
    assert "is FAILED: rank 0 on local-" in err


BY_HAND = """
import json, os, sys
print(json.dumps({"argv": sys.argv, "name": __name__, "files": sorted(os.listdir()),
      "optimised": sys.flags.optimize, "environment": sorted(os.environ)}))
"""


def test_one_slot_is_what_python_does_by_hand(stack: Stack, folder: Path) -> None:
    (folder / "train.py").write_text(BY_HAND)
    code, out, err = run(stack, folder, "python", "-O", "train.py", "--lr", "1e-3")
    assert code == 0, err
    found = json.loads(out)
    assert found["argv"] == ["train.py", "--lr", "1e-3"]
    assert (found["name"], found["optimised"]) == ("__main__", 1)
    assert set(found["files"]) - {"muster-outputs"} == {".gitignore", "train.py"}
    of_launchers = (
        "RANK",
        "LOCAL_",
        "WORLD_",
        "GROUP_",
        "ROLE_",
        "MASTER_",
        "TORCHELASTIC",
        "PET_",
    )
    assert [name for name in found["environment"] if name.startswith(of_launchers)] == []


def test_any_command_runs_and_one_that_is_not_there_is_named(stack: Stack, folder: Path) -> None:
    code, out, err = run(stack, folder, "env", "-u", "PATH", "/bin/echo", "from", "a", "command")
    assert (code, out) == (0, "from a command\n"), err
    code, out, err = run(stack, folder, "fairseq-hydra-train", "--help")
    assert (code, out) == (4, ""), err
    assert "the program fairseq-hydra-train of the entry point is on this node neither" in err


def test_a_shell_script_runs(stack: Stack, folder: Path) -> None:
    (folder / "run.sh").write_text("echo from the shell $NNODES; exit ${1:-0}\n")
    code, out, err = run(stack, folder, "bash", "run.sh", "3")
    assert (code, out) == (3, "from the shell 1\n"), err


def test_a_loss_that_is_only_printed_is_a_metric(
    stack: Stack, client: Client, folder: Path
) -> None:
    (folder / "run.sh").write_text("for i in 1 2 3; do echo step $i loss=0.$i; done\n")
    code, _, err = run(stack, folder, "bash", "run.sh")
    assert code == 0, err
    number = int(err.split("Submitted experiment ")[1].split()[0])
    (trial,) = client.trials(number)
    (series,) = client.get(f"/trials/{trial['id']}/series", name="loss")["series"]
    assert (series["step"], series["last"]) == ([1, 2, 3], [0.1, 0.2, 0.3])
    shown = stack.cli("logs", str(number), "--pattern", r"loss=(?P<value>\S+)", "--metric", "x")
    assert shown.returncode == 0, shown.stderr
    assert "This pattern finds 3 values of 1 metric in 3 lines." in shown.stderr
    assert "x: 3 values, last 0.3 at step 2" in shown.stdout
    wrong = stack.cli("logs", str(number), "--pattern", "loss=(?P<vlaue>.+)")
    assert wrong.returncode != 0
    assert "names a group 'vlaue'" in wrong.stderr


def test_ctrl_c_says_that_it_goes_on_and_how_to_stop_it(
    stack: Stack, client: Client, folder: Path
) -> None:
    process = start(stack, folder, "--launcher", "plain", "train.py", "--sleep")
    assert process.stdout is not None
    assert process.stdout.readline() == "rank None None --sleep\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    number = int(err.split("Submitted experiment ")[1].split()[0])
    assert f"Experiment {number} goes on. Follow it: muster logs {number} -f." in err
    assert client.experiment(number)["state"] == "RUNNING"
    assert stack.cli("kill", str(number)).returncode == 0
    assert client.wait(number, timeout_s=60)["state"] == "CANCELED"


def test_detached_it_prints_the_number_alone(stack: Stack, client: Client, folder: Path) -> None:
    code, out, err = run(stack, folder, "-d", "--name", "mine", "--launcher", "plain", "train.py")
    assert code == 0, err
    number = int(out)
    assert client.wait(number, timeout_s=60)["name"] == "mine"


def test_what_contradicts_the_command_line_is_an_error(stack: Stack, folder: Path) -> None:
    code, _, err = run(stack, folder, "-n", "3", "torchrun", "--nproc_per_node=2", "train.py")
    assert code == 2
    assert "-n 3 contradicts the command line, which asks for 2" in err
    code, _, err = run(stack, folder, "--gpus", "2", "-n", "3", "python", "train.py")
    assert code == 2
    assert "--gpus 2 contradicts -n" in err
    code, _, err = run(stack, folder, "python", "tain.py")
    assert code == 1
    assert "the code bundle has no file 'tain.py'" in err
    assert "train.py" in err


BATCH_SCRIPT = """#!/bin/bash
#SBATCH --job-name=from-slurm
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=0:30:00
#SBATCH --output=out-%j.txt

export WORD=from-the-script
if ! WORD=before-srun srun --label python train.py "$SLURM_NNODES nodes"; then exit 3; fi
echo "again: $(srun hostname | wc -l)"
"""


def test_a_batch_script_runs_by_both_commands(stack: Stack, client: Client, folder: Path) -> None:
    (folder / "train.sbatch").write_text(BATCH_SCRIPT)
    code, out, err = run(stack, folder, "train.sbatch")
    assert code == 0, err
    assert sorted(out.splitlines()) == [
        "[rank 0] rank None before-srun 2 nodes",
        "[rank 1] rank None before-srun 2 nodes",
        "again: 2",
    ]
    assert "line 3: --nodes=2 → resources.nodes: 2" in err
    assert "line 6: --output=out-%j.txt ignored" in err
    number = int(err.split("Submitted experiment ")[1].split()[0])
    assert client.experiment(number)["name"] == "from-slurm"


def test_one_starts_after_the_other(stack: Stack, client: Client, folder: Path) -> None:
    def submit(name: str, *words: str) -> int:
        options = ("-d", "--name", name, "--launcher", "plain")
        code, out, err = run(stack, folder, *options, *words)
        assert code == 0, err
        return int(out)

    first = submit("first", "train.py", "--sleep")
    second = submit("second", "--set", f"after=[{{experiment: {first}, when: any}}]", "train.py")
    third = submit("third", "--set", f"after={second}", "train.py")
    strict = submit("strict", "--set", f"after={first}", "train.py")
    assert stack.cli("kill", str(first)).returncode == 0
    ended = [client.wait(n, timeout_s=120) for n in (first, second, third, strict)]
    states = [experiment["state"] for experiment in ended]
    assert states == ["CANCELED", "COMPLETED", "COMPLETED", "CANCELED"]
    assert f"experiment {first}, which must be COMPLETED first" in ended[3]["reason"]
    assert client.trials(third)[0]["started_at"] >= client.trials(second)[0]["ended_at"]


ARRAY_SCRIPT = """#!/bin/bash
#SBATCH --job-name=array
#SBATCH --array=3-7:4%1
#SBATCH --output=out-%A_%a.txt

echo "element $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT in $SLURM_ARRAY_JOB_ID"
exit $((SLURM_ARRAY_TASK_ID == 7))
"""


def test_a_batch_script_with_an_array_runs_for_each_element(
    stack: Stack, client: Client, folder: Path
) -> None:
    (folder / "array.sbatch").write_text(ARRAY_SCRIPT)
    code, _, err = run(stack, folder, "array.sbatch")
    assert code == EXIT_FAILED, err
    assert "line 3: --array=3-7:4%1 → array.SLURM_ARRAY_TASK_ID: 3-7:4, max_concurrent: 1" in err
    number = int(err.split("Submitted experiment ")[1].split()[0])
    reason = client.experiment(number)["reason"]
    assert reason.startswith("1 of 2 elements of the array ended well; trial 2: ")
    trials = sorted(client.trials(number), key=lambda trial: trial["no"])
    assert [trial["state"] for trial in trials] == ["COMPLETED", "FAILED"]
    for trial, element in zip(trials, (3, 7), strict=True):
        words = [line["text"] for line in client.log_lines(trial["id"], ranks=(), follow=True)]
        assert f"element {element} of 2 in {number}" in words
    assert client.experiment(number)["config"]["search"]["concurrent"] == 1


def test_a_command_line_runs_for_each_element(stack: Stack, client: Client, folder: Path) -> None:
    code, out, err = run(
        stack, folder, "-d", "--array", "i=4-5", "--", "sh", "-c", 'test "$0" = "$i"', "${i}"
    )
    assert code == 0, err
    assert client.wait(int(out), timeout_s=60)["state"] == "COMPLETED"
    assert len(client.trials(int(out))) == 2


UP = """
import sys
from pathlib import Path
sys.path.append("..")
import package.names
print(Path("../data/x.csv").read_text(), package.names.NAME, Path.cwd().name, flush=True)
Path("out").mkdir(exist_ok=True)
Path("out/ckpt-7.pt").write_text("7")
"""


def test_a_job_in_a_subfolder_has_what_its_script_names_above_it(
    stack: Stack, client: Client, tmp_path: Path
) -> None:
    for name in (".git", "data", "package", "scripts"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/x.csv").write_text("1,2")
    (tmp_path / "package/names.py").write_text("NAME = 'found'")
    (tmp_path / "scripts/train.py").write_text(UP)
    adopt = ("--set", "checkpoints.adopt=out/ckpt-*.pt")
    code, out, err = run(stack, tmp_path / "scripts", *adopt, "--", "python", "train.py")
    assert (code, out) == (0, "1,2 found scripts\n"), err
    assert "Sending .., because the script names .." in err
    number = int(err.partition("Submitted experiment ")[2].split()[0])
    about = client.experiment(number)
    sent = about["config"]["code"]
    assert (sent["path"], sent["workdir"]) == ("..", "scripts")
    trial = about["only_trial_id"]
    wait_for(
        "its checkpoint",
        lambda: client.get(f"/trials/{trial}/checkpoints")["items"] or None,
        timeout_s=120,
    )

    batch = "#!/bin/bash\n#SBATCH --ntasks=1\nsrun cat ../data/x.csv\nbasename $SLURM_SUBMIT_DIR\n"
    (tmp_path / "scripts/job.sh").write_text(batch)
    code, out, err = run(stack, tmp_path / "scripts", "sbatch", "job.sh")
    assert (code, sorted(out.split())) == (0, ["1,2", "scripts"]), err


def test_the_folder_to_send_can_be_named(stack: Stack, tmp_path: Path) -> None:
    for name in ("data", "scripts"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/x.csv").write_text("1,2")
    (tmp_path / "scripts/train.py").write_text("print(open('../data/x.csv').read(), flush=True)")
    scripts = tmp_path / "scripts"
    code, _, err = run(stack, scripts, "--", "python", "train.py")
    assert code == 1
    assert "--upload-root .. sends it." in err
    assert "send more with `muster run --upload-root ..`" in err
    code, out, err = run(
        stack, scripts, "-n", "2", "--upload-root", "..", "--", "python", "train.py"
    )
    assert sorted(out.splitlines()) == ["[rank 0] 1,2", "[rank 1] 1,2"], err
    code, _, err = run(stack, scripts, "--upload-root", "../data", "--", "python", "train.py")
    assert "does not hold the current folder" in err
