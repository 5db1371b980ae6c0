"""What is written for Slurm, and what it prints."""

import datetime as dt
import subprocess

import pytest

from muster_server.domain.providers import Pilot, PilotState, Seen, options_of
from muster_server.loops.batch_systems.base import (
    BatchSystemUnreachable,
    PilotJob,
    SubmissionRefused,
)
from muster_server.loops.batch_systems.shell import Answer, Shell
from muster_server.loops.batch_systems.slurm import Slurm, parse_squeue, script, submission

OPTIONS = options_of(
    {
        "server_url": "http://10.0.0.5:8470",
        "folder": "/shared/muster",
        "agent": "/opt/bin/muster-agent",
        "partition": "main",
        "gres": "gpu:2",
    }
)
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
    18|muster-pilot-1a|PENDING|1767268800|Priority
    19|muster-pilot-2b|RUNNING|1767268000|None
    20|somebody-else|RUNNING|1767268000|None
    21|muster-pilot-3c|CANCELLED by 0|N/A|None
    22|muster-pilot-4d|NODE_FAIL|1767268000|NodeDown
    23|muster-pilot-2b|FAILED|1767268000|NonZeroExitCode
    24|muster-pilot-5e|PENDING|N/A|(ReqNodeNotAvail, UnavailableNodes:n1|2)
    """
    found = parse_squeue(text)
    assert found["pilot-1a"] == Seen(
        ref="18", state="pending", reason="Priority",
        expected_at=dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC),
    )  # fmt: skip
    assert (found["pilot-2b"].ref, found["pilot-2b"].state) == ("19", "running")
    assert (found["pilot-3c"].state, found["pilot-3c"].reason) == ("ended", "its job was canceled")
    assert found["pilot-4d"].reason == "NodeFail"
    assert found["pilot-5e"].reason.startswith("(ReqNodeNotAvail")
    assert set(found) == {"pilot-1a", "pilot-2b", "pilot-3c", "pilot-4d", "pilot-5e"}


def test_scripts_are_valid_and_show_no_secret():
    assert (
        subprocess.run(
            ["bash", "-n"], input=script(OPTIONS, JOB), text=True, check=False
        ).returncode
        == 0
    )
    text = submission(OPTIONS, JOB)
    assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0
    assert "join_secret" not in script(OPTIONS, JOB)
    assert "--partition=main" in text
    assert "--gres=gpu:2" in text
    assert "--time=120" in text
    assert "--job-name=muster-pilot-1a" in text


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
        Answer(0, "JobId=18 JobName=muster-pilot-1a JobState=COMPLETED Reason=None", ""),
        Answer(1, "", "slurm_load_jobs error: Invalid job id specified"),
    )
    listing = Slurm(OPTIONS, told).look(
        [pilot(ref="18"), pilot("pilot-2b", "19"), pilot("pilot-3c")]
    )
    assert listing.jobs["pilot-1a"].state == "ended"
    assert set(listing.absent) == {"pilot-2b", "pilot-3c"}


def test_a_listing_that_fails_is_unknown_and_not_gone():
    for answer in (Answer(1, "", "slurm_load_jobs error: Unable to contact slurm controller"),):
        with pytest.raises(BatchSystemUnreachable):
            Slurm(OPTIONS, Told(answer)).look([pilot(ref="18")])


def test_a_shell_returns_the_programs_code_and_passes_no_secret(monkeypatch):
    monkeypatch.setenv("MUSTER_SECRETS_KEY", "very-secret")
    answer = Shell().run("echo one; env | grep -c very-secret; echo words >&2; exit 7")
    assert (answer.code, answer.output, answer.error) == (7, "one\n0", "words")
    with pytest.raises(BatchSystemUnreachable, match="no answer within"):
        Shell().run("sleep 5", timeout_s=0.1)
