"""Probes do what they say, on real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.training.network_times import KINDS, metric, network_facts
from muster_server.services.insight.scaling_runs import timed
from support.training.jobs import Job, Start

pytestmark = pytest.mark.torch
STEPS = 6
DELAY_MS = 30


def probed(start: Start, probe: str, kind: str = "ddp", **strategy: object) -> Job:
    inject = [{"rank": rank, "ms": DELAY_MS} for rank in (0, 1)]
    document = {
        "trainer": {"model": "mlp", "steps": STEPS, "options": {"width": 8, "inject": inject}},
        "resources": {"slots": 2},
        "strategy": {"kind": kind, **strategy},
    }
    job = start(f"{probe}-{kind}", workers=2, hparams={"probe": f"{probe}/1"}, document=document)
    job.wait()
    assert not job.lines("checkpoint")
    assert not job.lines("evaluation")
    assert not job.series("val/loss")
    return job


def test_without_synchronisation_nothing_is_exchanged(start: Start) -> None:
    for kind, more in (("ddp", {}), ("local_sgd", {"sync_every": 2})):
        job = probed(start, "no_sync", kind, **more)
        for rank in (0, 1):
            assert len(job.series("time/step_ms", rank)) == STEPS
            # DDP's own check of the parameters comes before the first step.
            assert not any(v for s, v in job.series("comm/bytes", rank).items() if s > 1)


def test_as_it_is_workers_exchange_gradients_and_wait_for_their_data(start: Start) -> None:
    job = probed(start, "as_is")
    split = probed(start, "bucket:0.0003")
    name = "comm/world/all_reduce/count"
    assert split.series(name)[STEPS] > job.series(name)[STEPS]
    assert all(v > 0 for v in job.series("comm/bytes", 1).values())
    assert all(v >= DELAY_MS for v in job.series("time/data_wait_ms", 1).values())


def test_one_batch_out_of_memory_costs_no_loading(start: Start) -> None:
    job = probed(start, "synthetic")
    waits = job.series("time/data_wait_ms", 1)
    assert len(waits) == STEPS
    assert min(waits.values()) < DELAY_MS / 2


def test_alone_one_worker_has_its_own_share_of_the_batch(start: Start) -> None:
    job = probed(start, "alone")
    assert len(job.series("time/step_ms", 0)) == STEPS
    assert not job.series("time/step_ms", 1)
    rate, step_ms = job.series("throughput/samples_per_s", 0), job.series("time/step_ms", 0)
    assert rate[STEPS] * step_ms[STEPS] / 1e3 == pytest.approx(32, rel=1e-6)


def test_the_network_is_timed_when_the_last_step_is_done(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # as the agent does for workers of one node
    document = {
        "trainer": {
            "model": "mlp", "steps": STEPS, "test": False, "validate_every": {"steps": 1000},
            "options": {"width": 8, "time_network": True},
        },
        "resources": {"slots": 2},
        "strategy": {"kind": "ddp"},
    }  # fmt: skip
    job = start("timed", workers=2, document=document)
    job.wait()
    for kind in ("all_reduce", "all_gather"):
        times = [job.series(f"network/{kind}/{size}/ms") for size in (4096, 65536, 1048576)]
        assert [list(t) for t in times] == [[STEPS]] * 3
        assert all(t[STEPS] > 0 for t in times)
        assert not job.series(f"network/{kind}/4096/ms", 1)  # rank 0 says it for all
    # Both workers are on one host.
    assert job.series("network/is_loopback") == {STEPS: 1.0}
    assert job.series("network/mtu_bytes")[STEPS] >= 1500
    # It belongs to no step.
    assert len(job.series("time/step_ms")) <= STEPS
    assert max(job.series("comm/bytes").values()) < 65536


def test_of_a_network_card_its_rate_is_known_and_of_a_virtual_interface_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, files in {
        "card": {"mtu": "9000", "speed": "25000"},
        "virtual": {"mtu": "1500", "speed": "10000"},
        "unknown": {"mtu": "1500", "speed": "-1"},
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text + "\n")
        if name != "virtual":
            (folder / "device").mkdir()
    told = {}
    for name in ("card", "virtual", "unknown", "missing", ""):
        monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)
        told[name] = network_facts(interfaces=tmp_path)
    assert told == {
        "card": {"network/mtu_bytes": 9000, "network/link_mbit_per_s": 25000},
        "virtual": {"network/mtu_bytes": 1500},
        "unknown": {"network/mtu_bytes": 1500},
        "missing": {},
        "": {},
    }


def test_a_report_reads_what_the_trainer_has_timed_by_the_same_names() -> None:
    times = {metric(kind, 4096): {"last": 2.5} for kind in KINDS}
    summary = {**times, "train/loss": {"last": 1.0}, "network/luck/4096/ms": {"last": 1.0}}
    found = timed(summary, size=2, backend="gloo")
    assert [(t.kind, t.size, t.num_bytes, t.transfer_s) for t in found] == [
        (kind, 2, 4096.0, 0.0025) for kind in KINDS
    ]
    assert timed(summary, size=1, backend="gloo") == ()  # of one worker nothing is sent
