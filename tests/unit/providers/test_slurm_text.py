"""What is written for Slurm, and what it prints."""

import dataclasses
import datetime as dt
import json
import subprocess

import pytest

from muster_server.domain.providers import Pilot, PilotState, Seen, options_of
from muster_server.loops.batch_systems.base import (
    BatchSystemUnreachable,
    PilotJob,
    SubmissionRefused,
    Submitted,
)
from muster_server.loops.batch_systems.shell import Answer, Shell
from muster_server.loops.batch_systems.slurm import Slurm, script, submission
from muster_server.loops.batch_systems.slurm_listing import parse_squeue, parse_squeue_json

KNOWN = {
    "server_url": "http://10.0.0.5:8470",
    "folder": "/shared/muster",
    "agent": "/opt/bin/muster-agent",
    "partition": "main",
    "gres": "gpu:2",
}
OPTIONS = options_of(KNOWN)
JOB = PilotJob(
    id="pilot-1a",
    pool="gpu",
    join_token="join_secret",
    slots=2,
    slot_type="cuda",
    walltime_s=7200,
    idle_s=600,
)


class Told:
    """A shell that answers what it is told, and keeps what was run."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.programs = []

    def run(self, program, *, timeout_s=30.0):
        self.programs.append(program)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def pilot(id_="pilot-1a", ref=""):
    return Pilot(id=id_, state=PilotState.PENDING, since=dt.datetime.now(dt.UTC), ref=ref)


def test_jobs_are_found_by_their_name_and_states_are_read():
    text = """
    18|muster-pilot-1a|PENDING|1767268800||Priority
    19|muster-pilot-2b|RUNNING|1767268000|n1|None
    20|somebody-else|RUNNING|1767268000|n1|None
    21|muster-pilot-3c|CANCELLED by 0|N/A||None
    22|muster-pilot-4d|NODE_FAIL|1767268000|n2|NodeDown
    23|muster-pilot-2b|FAILED|1767268000|n2|NonZeroExitCode
    24|muster-pilot-5e|PENDING|N/A||(ReqNodeNotAvail, UnavailableNodes:n1|2)
    """
    found = parse_squeue(text)
    assert found["pilot-1a"] == Seen(
        ref="18", state="pending", reason="Priority",
        expected_at=dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
    )  # fmt: skip
    assert found["pilot-2b"] == Seen(ref="19", state="running", reason="None", node="n1")
    assert (found["pilot-3c"].state, found["pilot-3c"].reason) == ("ended", "CANCELLED")
    assert found["pilot-4d"].reason == "NODE_FAIL"
    assert found["pilot-5e"].reason.startswith("(ReqNodeNotAvail")
    assert set(found) == {"pilot-1a", "pilot-2b", "pilot-3c", "pilot-4d", "pilot-5e"}


def test_scripts_are_valid_and_show_no_secret():
    assert (
        subprocess.run(
            ["bash", "-n"], input=script(OPTIONS, [JOB]), text=True, check=False
        ).returncode
        == 0
    )
    text = submission(OPTIONS, [JOB])
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
    assert "join_secret" not in script(OPTIONS, [JOB])
    assert "--partition=main" in text
    assert "--gres=gpu:2" in text
    assert "--time=120" in text
    assert "--job-name=muster-pilot-1a" in text


def words(**options):
    line = next(
        line
        for line in submission(options_of({**KNOWN, **options}), [JOB]).splitlines()
        if " sbatch " in line
    )
    return line.split()


def test_pilots_ask_for_what_they_use_and_have_their_machine_for_themselves():
    assert "--cpus-per-task=2" in words(), "one processor for each slot"
    assert "--exclusive" in words()
    told = words(cpus_per_task="16", memory_mb="64000", share_nodes="yes")
    assert "--cpus-per-task=16" in told
    assert "--mem=64000" in told
    assert "--exclusive" not in told
    with pytest.raises(ValueError, match="share_nodes: 'no' does not work; write yes"):
        options_of({**KNOWN, "share_nodes": "no"})


def many(*numbers, once=False):
    return [
        dataclasses.replace(
            JOB, id=f"pilot-0123456789abcd{n:04d}", join_token=f"secret_{n}", once=once
        )
        for n in numbers
    ]


def test_pilots_that_were_asked_for_together_are_one_job_array():
    told = Told(Answer(0, "18;lab", ""))
    jobs = many(0, 2, 3, once=True)
    found = Slurm(OPTIONS, told).submit_many(jobs)
    assert found == Submitted(
        refs=dict(zip((j.id for j in jobs), ("18_0", "18_2", "18_3"), strict=True))
    )
    (program,) = told.programs
    assert "--array=0,2,3" in program
    assert "--job-name=muster-pilot-0123456789abcd " in program
    assert "/logs/pilot-0123456789abcd%4a.log" in program
    assert "--once" in script(OPTIONS, jobs)
    for job in jobs:
        assert f"/tokens/{job.id} " in program
        assert job.join_token not in script(OPTIONS, jobs)
    assert subprocess.run(["sh", "-n"], input=program, text=True, check=False).returncode == 0


def test_an_element_of_an_array_works_out_which_pilot_it_is():
    lines = script(OPTIONS, many(7, 12)).splitlines()
    begin = "\n".join(
        lines[: lines.index(next(line for line in lines if line.startswith("token=")))]
    )
    variables = "SLURM_ARRAY_JOB_ID=18 SLURM_ARRAY_TASK_ID=12 SLURM_JOB_ID=18\n"
    done = subprocess.run(
        ["bash"],
        input=variables + begin + '\necho "$id $job"',
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["pilot-0123456789abcd0012", "18_12"]


def test_elements_of_arrays_are_found_by_the_name_of_the_array_and_their_number():
    text = "18_2|muster-pilot-0123456789abcd|RUNNING|1767268000|n1|None"
    assert parse_squeue(text)["pilot-0123456789abcd0002"].ref == "18_2"


def test_pilots_of_several_requests_are_several_arrays():
    others = [dataclasses.replace(job, id=job.id.replace("0123", "9999")) for job in many(0, 1)]
    told = Told(Answer(0, "18", ""), Answer(0, "22", ""), Answer(0, "25", ""))
    odd = dataclasses.replace(JOB, id="pilot-0123456789abcdefff")
    found = Slurm(OPTIONS, told).submit_many([*many(0, 1), *others, odd])
    assert sorted(found.refs.values()) == ["18_0", "18_1", "22_0", "22_1", "25"]


def test_a_limit_on_the_number_of_jobs_still_lets_some_of_an_array_in():
    words = "sbatch: error: AssocMaxSubmitJobLimit"
    told = Told(Answer(1, "", words), Answer(0, "18", ""), Answer(1, "", words))
    jobs = many(0, 1, 2)
    found = Slurm(OPTIONS, told).submit_many(jobs)
    assert found == Submitted(refs={jobs[0].id: "18"}, refusal="AssocMaxSubmitJobLimit")


NEW_JOB = {
    "job_id": {"set": True, "infinite": False, "number": 21},
    "array_job_id": {"set": True, "infinite": False, "number": 18},
    "array_task_id": {"set": False, "infinite": False, "number": 0},
    "array_task_string": "1-2,5%1",
    "name": "muster-pilot-0123456789abcd",
    "job_state": ["PENDING"],
    "state_reason": "Priority",
    "start_time": {"set": True, "infinite": False, "number": 1767268800},
    "nodes": "",
}
OLD_JOB = {
    "job_id": 19,
    "array_job_id": 0,
    "array_task_id": None,
    "array_task_string": "",
    "name": "muster-pilot-2b",
    "job_state": "RUNNING",
    "state_reason": "None",
    "start_time": 1767268000,
    "nodes": "n1",
}


def test_json_of_old_and_new_releases_says_what_text_says():
    found = parse_squeue_json(json.dumps({"jobs": [NEW_JOB, OLD_JOB, OLD_JOB | {"name": "x"}]}))
    text = """
    18_1|muster-pilot-0123456789abcd|PENDING|1767268800||Priority
    18_2|muster-pilot-0123456789abcd|PENDING|1767268800||Priority
    18_5|muster-pilot-0123456789abcd|PENDING|1767268800||Priority
    19|muster-pilot-2b|RUNNING|1767268000|n1|None
    """
    assert found == parse_squeue(text)


def test_json_that_is_not_understood_is_asked_for_as_text():
    told = Told(
        Answer(0, json.dumps({"jobs": [OLD_JOB | {"job_state": 7}]}) + "\nMUSTER_NODES\n", ""),
        Answer(0, "19|muster-pilot-2b|RUNNING|1767268000|n1|None\nMUSTER_NODES\n", ""),
    )
    listing = Slurm(OPTIONS, told).look([pilot("pilot-2b", "19")])
    assert listing.jobs["pilot-2b"].state == "running"
    assert "--json" not in told.programs[1]


def test_drained_nodes_are_told_and_pilots_on_them_know_it():
    told = Told(
        Answer(
            0,
            "19|muster-pilot-2b|RUNNING|1767268000|n1|None\n"
            "20|muster-pilot-3c|RUNNING|1767268000|n2|None\nMUSTER_NODES\n"
            "n1|draining|disk is full\nn1|draining|disk is full\nn2|down*|Not responding\nn3|drained|none\n",
            "",
        )
    )
    listing = Slurm(OPTIONS, told).look([pilot("pilot-2b", "19"), pilot("pilot-3c", "20")])
    assert (
        listing.notice
        == "n1 is draining (disk is full), n2 is down (Not responding), n3 is drained"
    )
    assert listing.jobs["pilot-2b"].node_problem == "n1 is draining (disk is full)"
    assert listing.jobs["pilot-3c"].node_problem == "", "Slurm ends what runs there, if it must"
    assert "sinfo -h -N -p main " in told.programs[0]


def test_how_a_job_ended_comes_from_the_accounting_or_else_from_the_controller():
    told = Told(
        Answer(0, "18|muster-pilot-1a|FAILED|1767268000|n1|NonZeroExitCode", ""),
        Answer(
            0,
            "18|FAILED|1:0\n19|TIMEOUT|0:15\n20|RUNNING|0:0\n21_3|CANCELLED by 0|0:0\nMUSTER_JOB 18\nJobState=FAILED\n"
            "MUSTER_JOB 19\nMUSTER_JOB 20\nJobId=20 JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125\n"
            "MUSTER_JOB 21_3\nslurm_load_jobs error: Invalid job id specified\n"
            "MUSTER_JOB 22_0\nJob 22_0 not found\n",
            "",
        ),
    )
    pilots = [pilot("pilot-1a", "18"), pilot("b", "19"), pilot("c", "20"), pilot("d", "21_3")]
    listing = Slurm(OPTIONS, told).look([*pilots, pilot("gone", "22_0")])
    jobs = listing.jobs
    assert set(listing.absent) == {"gone"}
    assert {id_: (seen.reason, seen.exit_code) for id_, seen in jobs.items()} == {
        "pilot-1a": ("FAILED", "1"),
        "b": ("TIMEOUT", "0, signal 15"),
        "c": ("OUT_OF_MEMORY", "0, signal 125"),
        "d": ("CANCELLED", ""),
    }


def test_a_refusal_carries_slurms_words():
    words = "sbatch: error: invalid partition specified: nope"
    with pytest.raises(SubmissionRefused, match=r"^invalid partition specified: nope"):
        Slurm(OPTIONS, Told(Answer(1, "", words))).submit(JOB)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(1, "", "sbatch: error: Unable to contact slurm controller (connect failure)"),
        Answer(0, "", ""),
        Answer(127, "", "sh: 1: sbatch: command not found"),
        BatchSystemUnreachable("no answer within 30 s"),
    ],
)
def test_an_answer_that_says_nothing_leaves_it_open(answer):
    with pytest.raises(BatchSystemUnreachable):
        Slurm(OPTIONS, Told(answer)).submit(JOB)


def test_a_job_that_is_not_listed_is_asked_for_by_its_number():
    told = Told(
        Answer(0, "", ""),
        Answer(
            0,
            "MUSTER_JOB 18\nJobId=18 JobName=muster-pilot-1a JobState=COMPLETED Reason=None\n"
            "MUSTER_JOB 19\nslurm_load_jobs error: Invalid job id specified\n",
            "",
        ),
    )
    listing = Slurm(OPTIONS, told).look(
        [pilot(ref="18"), pilot("pilot-2b", "19"), pilot("pilot-3c")]
    )
    assert listing.jobs["pilot-1a"].state == "ended"
    assert set(listing.absent) == {"pilot-2b", "pilot-3c"}


def test_a_listing_that_fails_is_unknown_and_not_gone():
    words = "slurm_load_jobs error: Unable to contact slurm controller"
    with pytest.raises(BatchSystemUnreachable):
        Slurm(OPTIONS, Told(Answer(1, "", words))).look([pilot(ref="18")])
    told = Told(Answer(0, "", ""), Answer(0, f"MUSTER_JOB 18\n{words}", ""))
    with pytest.raises(BatchSystemUnreachable):
        Slurm(OPTIONS, told).look([pilot(ref="18")])


def test_a_shell_returns_the_programs_code_and_passes_no_secret(monkeypatch):
    monkeypatch.setenv("MUSTER_SECRETS_KEY", "very-secret")
    answer = Shell().run("echo one; env | grep -c very-secret; echo words >&2; exit 7")
    assert (answer.code, answer.output, answer.error) == (7, "one\n0", "words")
    with pytest.raises(BatchSystemUnreachable, match="no answer within"):
        Shell().run("sleep 5", timeout_s=0.1)
