"""Batch scripts in the shapes that people have written, run by real processes on one node or two."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from support.batch.batch_jobs import EndedJob, finish, run_job, start_job, start_node
from support.ports import free_port

TASK = """
import os, sys
get = os.environ.get
print("task", get("SLURM_PROCID"), "of", get("SLURM_NTASKS"), get("OMP_NUM_THREADS", "-"), *sys.argv[1:])
sys.exit(int(get("CODE_" + get("SLURM_PROCID"), "0")))
"""
LAUNCHER = """#!/bin/sh
echo "$(basename $0) on $SLURM_NODEID $*"
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """The folder that is sent: a script, and programs that show how launchers are called."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    for name in ("torchrun", "accelerate"):
        (folder / name).write_text(LAUNCHER)
        (folder / name).chmod(0o755)
    return folder


# The head's address is asked for by srun, then a launcher runs once per node.
HEAD_ADDRESS = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks=2
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
first=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 -w "$first" echo at-$first)
echo Node IP: $address
export LOGLEVEL=INFO
srun ./torchrun --nnodes 2 --rdzv_endpoint $address:29500 task.py 50
"""
# Options of srun in a variable, the command in another, and output through tee.
IN_VARIABLES = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
set -eo pipefail
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
LAUNCHER="./torchrun --nnodes $SLURM_NNODES --node_rank \\$SLURM_PROCID --master $MASTER_ADDR"
CMD="$LAUNCHER task.py --flag"
SRUN_ARGS=" \\
    --wait=60 \\
    --kill-on-bad-exit=1 \\
    "
clear 2>/dev/null || true
srun $SRUN_ARGS --jobid $SLURM_JOB_ID bash -c "$CMD" 2>&1 | tee -a log.txt
echo "kept $(wc -l < log.txt)"
"""
COMMAND_IN_VARIABLE = """#!/bin/bash
#SBATCH -D .
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="./accelerate launch \\
    --num_machines $SLURM_NNODES \\
    --main_process_ip $head_node_ip \\
    "
export CMD="$LAUNCHER task.py"
srun $CMD
"""
# All that says how large the job is stands on the line of srun, behind variables of the command.
ON_THE_LINE = """#!/usr/bin/env bash
set -x
NAME=$1
GPUS=${GPUS:-2}
PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \\
srun -p part \\
    --job-name=${NAME} \\
    --ntasks=${GPUS} \\
    --ntasks-per-node=1 \\
    --cpus-per-task=5 \\
    --kill-on-bad-exit=1 \\
    ${SRUN_ARGS} \\
    python -u task.py --launcher="slurm" ${@:2}
"""
CONDITION = """#!/bin/bash
if ! srun python task.py; then echo failed; exit 3; fi
echo "not reached"
"""
NOT_CALLS = """#!/bin/bash
# srun in a comment
echo "now; srun -n 9 python"
cat <<END
srun -n 8 nothing
END
OMP_NUM_THREADS=3 srun python task.py
"""
BACKTICKS = """#!/bin/bash
names=`scontrol show hostnames $SLURM_JOB_NODELIST | tr '\\n' ' '`
set -- $names
count=`srun -N2 echo x | wc -l`
echo "$# $count"
"""
SEVERAL = """#!/bin/bash
srun -n 1 -N 1 python task.py first
for n in 0 1; do
  srun -N1 -n1 -r $n --exclusive python task.py part-$n &
done
wait
srun --label python task.py
"""
FOR_ENV = """#!/usr/bin/env -S bash -eu
echo "${BASH_VERSION:0:0}$0 $1"
srun -n1 -N1 python task.py "$2"
false
echo "not reached"
"""


@pytest.mark.parametrize(
    ("script", "nodes", "arguments", "variables", "lines", "exit_code"),
    [
        (
            HEAD_ADDRESS, 2, (), {},
            ["Node IP: at-127.0.0.1",
             "torchrun on 0 --nnodes 2 --rdzv_endpoint at-127.0.0.1:29500 task.py 50",
             "torchrun on 1 --nnodes 2 --rdzv_endpoint at-127.0.0.1:29500 task.py 50"], 0,
        ),
        (
            IN_VARIABLES, 2, (), {},
            ["kept 2",
             "torchrun on 0 --nnodes 2 --node_rank 0 --master 127.0.0.1 task.py --flag",
             "torchrun on 1 --nnodes 2 --node_rank 1 --master 127.0.0.1 task.py --flag"], 0,
        ),
        (
            COMMAND_IN_VARIABLE, 2, (), {},
            ["accelerate on 0 launch --num_machines 2 --main_process_ip 127.0.0.1 task.py",
             "accelerate on 1 launch --num_machines 2 --main_process_ip 127.0.0.1 task.py"], 0,
        ),
        (
            ON_THE_LINE, 2, ("net", "a b", "c"), {},
            ["task 0 of 2 - --launcher=slurm a b c", "task 1 of 2 - --launcher=slurm a b c"], 0,
        ),
        (CONDITION, 2, (), {"CODE_1": "4"}, ["failed", "task 0 of 2 -", "task 1 of 2 -"], 3),
        (
            NOT_CALLS, 1, (), {"SLURM_NTASKS": "2", "NPROC_PER_NODE": "2"},
            ["now; srun -n 9 python", "srun -n 8 nothing", "task 0 of 2 3", "task 1 of 2 3"], 0,
        ),
        (BACKTICKS, 2, (), {}, ["2 2"], 0),
        (
            SEVERAL, 2, (), {},
            ["0: task 0 of 2 -", "1: task 1 of 2 -", "task 0 of 1 - first",
             "task 0 of 1 - part-0", "task 0 of 1 - part-1"], 0,
        ),
        (FOR_ENV, 1, ("one", "two words"), {}, ["job.sh one", "task 0 of 1 - two words"], 1),
    ],
    ids=["head-address", "in-variables", "command-in-variable", "on-the-line", "condition",
         "not-calls", "backticks", "several", "env-S"],
)  # fmt: skip
def test_shapes_of_scripts(
    code: Path,
    script: str,
    nodes: int,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    lines: list[str],
    exit_code: int,
) -> None:
    job = start_job(code.parent, script, nodes=nodes, arguments=arguments, **variables)
    ended = finish(job)
    assert ended.lines == lines, ended.err
    assert ended.codes == [exit_code, *[0] * (nodes - 1)], ended.err


def run(code: Path, body: str, nodes: int = 1, **variables: str) -> EndedJob:
    return run_job(code.parent, f"#!/bin/bash\n{body}\n", nodes=nodes, **variables)


@pytest.mark.parametrize(
    ("body", "said", "exit_code"),
    [
        (
            "echo\nsrun --pty bash",
            "srun: error: line 3: --pty cannot be used here; a job has no terminal",
            1,
        ),
        ("srun -n 8 hostname", "srun: error: line 2: -n 8 is more than the job has: 1 tasks on", 1),
        ("srun ./no-such-program", "no-such-program: No such file or directory", 127),
        ("srun sh -c 'kill -9 $$'", "task 0 was killed by SIGKILL", 137),
        ("sbatch next.sh", "sbatch: error: a job submits no other from here", 1),
        ("scontrol requeue 7", "scontrol: error: only `scontrol show hostnames` can be used", 1),
        ("srun sh -c 'srun hostname'", "it starts tasks from the batch script of a job alone", 1),
    ],
)
def test_what_cannot_be_done_says_where_and_what_to_write(
    code: Path, body: str, said: str, exit_code: int
) -> None:
    ended = run(code, body)
    assert said in ended.err
    assert ended.codes == [exit_code]


def test_the_exit_code_is_the_highest_of_the_tasks(code: Path) -> None:
    ended = run(code, "srun python task.py; echo $?", nodes=2, CODE_0="3", CODE_1="5")
    assert ended.lines[0] == "5"
    assert "srun: error: node1: task 1 exited with code 5" in ended.err


def test_the_others_end_with_one_that_fails(code: Path) -> None:
    body = "srun -K sh -c '[ $SLURM_PROCID = 1 ] && exit 5; sleep 600'; echo $?"
    ended = run(code, body, nodes=2)
    assert ended.out == "143\n"
    # What came first is said last.
    assert ended.err.splitlines()[-1] == "srun: error: node1: task 1 exited with code 5"
    body = "srun -W 1 sh -c '[ $SLURM_PROCID = 1 ] && exit 0; sleep 600'; echo $?"
    assert run(code.parent / "w" / "code", body, nodes=2).out == "143\n"


def test_files_variables_and_input_of_steps(code: Path) -> None:
    body = """
export A=from-script; unset HOME
given() { echo "of the script"; }; export -f given
srun -n1 -N1 -r1 bash -c given
test "$(PATH=/usr/bin:/bin hostname -s)" = "$(srun -n1 hostname -s)" || echo another name
mkdir sub; cd sub
srun -l sh -c 'echo $A ${HOME-none} ${PWD##*/}'
srun --export=ALL,B=2 -n1 -N1 sh -c 'echo $A $B'
srun --export=NONE -n1 -N1 sh -c 'echo ${A-none}'
srun -o out-%j-%t.txt -e none sh -c 'echo to file; echo lost >&2'
cat out-7-0.txt out-7-1.txt
srun -l cat <<END
given
END
srun -n1 -N1 -D .. sh -c 'echo ${PWD##*/}'
srun -w node1 -x 127.0.0.1 -N1 -n1 sh -c 'echo ${PWD%/*/work/sub}/$SLURMD_NODENAME; test -d $SLURM_TMPDIR'
echo $SLURM_TMPDIR; srun -r1 -N1 -n1 echo $SLURM_TMPDIR
"""
    ended = run(code, body, nodes=2)
    home = code.parent
    assert ended.out.splitlines()[-2:] == [f"{home}/node0/scratch", f"{home}/node1/scratch"]
    assert sorted(ended.out.splitlines()[:-2]) == sorted([
        "0: from-script none sub", "1: from-script none sub", "from-script 2", "none", "to file",
        "of the script", "to file", "0: given", "1: given", "work", f"{home}/node1",
    ]), ended.err  # fmt: skip
    assert not (home / "node0" / "scratch").exists()
    assert not (home / "node1" / "scratch").exists()


def test_gpus_are_shared_out_between_steps(code: Path) -> None:
    body = """
show='echo $SLURM_PROCID:$CUDA_VISIBLE_DEVICES'
srun -n 2 sh -c "$show"
srun -n 2 --gpus-per-task=2 sh -c "$show"
for i in 1 2 3; do srun -n1 --gpus=2 sh -c 'echo took $CUDA_VISIBLE_DEVICES; sleep 0.5' & done; wait
"""
    ended = run(code, body, NPROC_PER_NODE="4", CUDA_VISIBLE_DEVICES="0,1,2,3")
    shared = ["0:0,1", "0:0,1,2,3", "1:0,1,2,3", "1:2,3"]
    assert ended.lines[: len(shared)] == shared, ended.err
    took = ended.lines[len(shared) :]
    # The third step gets the devices of whichever of the others ends first.
    assert (len(took), set(took)) == (3, {"took 0,1", "took 2,3"}), ended.err
    assert "srun: the step waits until other steps have ended" in ended.err


def test_steps_wait_for_each_other_where_the_job_is_too_small_for_both(code: Path) -> None:
    body = """
one='test ! -e busy && touch busy && sleep 0.3 && rm busy && echo alone'
srun -n1 sh -c "$one" & srun -n1 sh -c "$one" & wait
srun --overlap -n1 sh -c 'touch a; until [ -e b ]; do sleep 0.05; done' &
srun --overlap -n1 sh -c 'touch b; until [ -e a ]; do sleep 0.05; done'
wait; echo together
"""
    assert run(code, body).out == "alone\nalone\ntogether\n"


def test_signals_reach_the_tasks(code: Path, wait_for: Any) -> None:
    body = """
srun bash -c 'trap "echo saved; exit 0" TERM; touch up; while :; do sleep 0.05; done'
echo "after $?"
"""
    job = start_job(code.parent, f"#!/bin/bash\n{body}", nodes=2)
    ups = [code.parent / f"node{rank}" / "work" / "up" for rank in (0, 1)]
    wait_for(lambda: all(up.exists() for up in ups))
    for process in job:
        os.killpg(process.pid, signal.SIGTERM)
    ended = finish(job)
    assert ended.lines == ["saved", "saved"]
    assert ended.codes == [143, 0]


def test_a_stop_that_comes_while_the_job_ends_does_not_keep_it(code: Path, wait_for: Any) -> None:
    body = """
srun bash -c 'trap "touch asked; sleep 2; exit 0" TERM; touch up; while :; do sleep 0.05; done' &
while [ ! -e go ]; do sleep 0.05; done
"""
    job = start_job(code.parent, f"#!/bin/bash\n{body}", nodes=2)
    first, second = (code.parent / f"node{rank}" / "work" for rank in (0, 1))
    wait_for(lambda: (first / "up").exists() and (second / "up").exists())
    (first / "go").touch()
    wait_for(lambda: (first / "asked").exists())
    job[0].terminate()
    assert finish(job).codes == [0, 0]


def test_who_does_not_have_the_key_gets_nothing(code: Path) -> None:
    """Neither a node of the job, nor its commands and variables."""
    port = free_port()
    body = "#!/bin/bash\nsrun echo up\n"
    job = start_job(code.parent, body, nodes=2, MASTER_PORT=str(port))
    job[1].kill()
    job[1].communicate()
    (code / "job.sh").write_text("")
    stranger = start_node(
        code.parent, "job.sh", 1, 2, port, {"MUSTER_GANG_KEY": "other"}, (), name="x"
    )
    try:
        with pytest.raises(Exception, match="timed out"):
            stranger.communicate(timeout=2)
        assert job[0].poll() is None
    finally:
        for process in (stranger, job[0]):
            process.kill()
            process.communicate()
