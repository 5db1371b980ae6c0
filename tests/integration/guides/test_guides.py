"""The guides of a beginner, and how a machine joins. See guides.py."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from support.guides import GUIDES, joined, pool_commands, run_guide, shell
from support.stack import Stack


def trial_of(stack: Stack, name: str) -> tuple[dict[str, int], list[str]]:
    """Of the newest completed one of this name: metric → points of rank 0, and the log."""
    with stack.client() as client:
        named = client.pages("/experiments", q=name, state="COMPLETED")
        found = next(e for e in named if e["name"] == name)
        (trial,) = client.trials(found["id"])
        items = client.get(f"/trials/{trial['id']}/metrics")["items"]
        lines = [line["text"] for line in client.log_lines(trial["id"])]
    return {i["name"]: i["count"] for i in items if i["rank"] == 0}, lines


def check_quickstart(stack: Stack) -> None:
    """The script that reports has reported everything."""
    metrics, _ = trial_of(stack, "reporting")
    assert metrics == {"train/loss": 90, "val/loss": 9}


def in_general(metric: str) -> str:
    """As it stands in the text: there are many groups, and many kinds of collectives."""
    match metric.split("/"):
        case ["comm", _, what]:
            return f"comm/GROUP/{what}"
        case ["comm", _, _, what]:
            return f"comm/GROUP/KIND/{what}"
    return metric


def check_experiments(stack: Stack) -> None:
    """Every metric of the built-in trainer is explained, and its log says a rank once."""
    metrics, lines = trial_of(stack, "digits")
    text = (GUIDES.parent / "concepts" / "measuring.md").read_text()
    assert len(metrics) > 15
    assert sorted(name for name in metrics if f"`{in_general(name)}`" not in text) == []
    assert any(line.startswith("epoch ") for line in lines)


def check_training(stack: Stack) -> None:
    """The model of one's own was trained and judged, and can be had as one file."""
    metrics, _ = trial_of(stack, "own")
    assert metrics["val/loss"] == 3
    assert metrics["test/accuracy"] == 1
    with stack.client() as client:
        named = client.pages("/experiments", q="own", state="COMPLETED")
        experiment = next(e for e in named if e["name"] == "own")
        trial_id = client.trials(experiment["id"])[0]["id"]
        checkpoint = next(client.pages(f"/trials/{trial_id}/checkpoints"))
    file = stack.home / "own.safetensors"
    made = stack.cli("checkpoint", "export", str(checkpoint["id"]), str(file))
    assert made.returncode == 0, made.stderr
    here = stack.home / "here.safetensors"
    (folder,) = stack.home.glob(f"**/experiment-{experiment['id']}/trial-1/{checkpoint['path']}")
    assert stack.cli("checkpoint", "export", str(folder), str(here)).returncode == 0
    assert file.read_bytes() == here.read_bytes()


def check_slurm(stack: Stack) -> None:
    """Both nodes ran a worker of one world."""
    _, lines = trial_of(stack, "from-slurm")
    ranks = sorted(line for line in lines if line.startswith("rank "))
    assert ranks == [f"rank {rank} of 2 ['--lr', '1e-3']" for rank in (0, 1)]


def check_scaling(stack: Stack) -> None:
    """Every run was measured, and the network between two workers is known."""
    with stack.client() as client:
        source = next(e for e in client.pages("/experiments", q="scales") if e["name"] == "scales")
        weak, strong = client.get(f"/experiments/{source['id']}/scaling-reports")["items"][::-1]
        assert (weak["mode"], weak["state"]) == ("weak", "done"), weak
        assert (strong["mode"], strong["state"]) == ("strong", "done"), strong
        detail = client.get(f"/scaling-reports/{weak['id']}")
    one, two = detail["sizes"]
    assert (one["slots"], two["slots"]) == (1, 2)
    assert abs(sum(two["parts_ms"].values()) / two["step_ms"]["value"] - 1) < 0.02
    assert detail["model"]["bandwidth_bytes_per_s"]["value"] > 0


def check_reports(stack: Stack) -> None:
    """The table has the mean and deviation of the seeds' last values."""
    with stack.client() as client:
        (report,) = client.pages("/reports")
        content = client.get(f"/reports/{report['id']}/content")
        (experiment,) = client.pages("/experiments", label=["paper=demo"])
        trials = client.trials(experiment["id"])
    rows = content["blocks"][1]["table"]["rows"]
    assert [row["keys"] for row in rows] == [["0.01"], ["0.1"]]
    for row in rows:
        last = [t["summary"]["val/accuracy"]["last"] for t in trials if t["id"] in row["trial_ids"]]
        assert len(last) == 3
        (cell,) = row["cells"]
        assert cell["value"] == pytest.approx(statistics.fmean(last))
        assert cell["deviation"] == pytest.approx(statistics.stdev(last))


GUIDES_RUN = {
    "quickstart.md": check_quickstart,
    "experiments.md": check_experiments,
    "training.md": check_training,
    "agents.md": None,
    "planning.md": None,
    "containers.md": None,
    "scaling.md": check_scaling,
    "slurm.md": check_slurm,
    "pilots.md": None,
    "projects.md": None,
    "sign-in.md": None,
    "schedules.md": None,
    "reports.md": check_reports,
}


@pytest.mark.torch
@pytest.mark.parametrize("guide", GUIDES_RUN)
def test_every_command_of_a_guide_works(stack: Stack, guide: str, tmp_path: Path) -> None:
    run_guide(stack, guide, tmp_path)
    if check := GUIDES_RUN[guide]:
        check(stack)


@pytest.mark.parametrize("guide", ["ray.md", "slurm.md", "kubernetes.md"])
def test_the_commands_of_a_guide_about_a_provider_work(
    stack: Stack, guide: str, tmp_path: Path
) -> None:
    """None of these clusters is here, and nothing waits for one: what the commands name is taken, shown
    and given up again."""
    commands = pool_commands((GUIDES / guide).read_text())
    assert commands[0].startswith("muster pool create "), commands
    name = commands[0].split()[3]
    for line in dict.fromkeys([*commands, f"muster pool release {name}"]):
        done = shell(stack, line, tmp_path)
        assert done.returncode == 0, f"{guide}: {line}\n{done.stdout}\n{done.stderr}"
        if line.startswith("muster pool provider"):
            assert guide.removesuffix(".md") in done.stdout.lower(), done.stdout


def test_another_machine_joins_with_the_printed_command(stack: Stack, tmp_path: Path) -> None:
    with joined(stack, "second", tmp_path) as node, stack.client() as client:
        drained = client.patch(f"/nodes/{node['id']}", {"scheduling": "draining"})
        assert drained["scheduling"] == "draining"
