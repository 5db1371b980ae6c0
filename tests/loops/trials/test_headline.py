"""One metric stands for a trial: in lists, on its page and in the commands, with the same figures."""

from __future__ import annotations

from support.data import metrics_record


def test_lists_pages_and_commands_show_the_metric_that_still_moves(
    controller, agent, submit, show, muster
):
    """nanoGPT says "step 0: train loss 4.4, val loss 4.3" once; its `loss` goes on."""
    node = agent(slots=1)
    experiment_id = submit(slots=1)
    controller.tick()
    allocation_id = node.only().spec.allocation_id
    node.send(allocation_id, metrics_record({"train_loss": [(0, 4.4)], "val_loss": [(0, 4.3)]}))
    measured = {"comm/exposed_ms": (9.0, 27.0), "time/step_ms": (90.0, 110.0)}
    measured |= {
        "comm/overhead_ratio": (9 / 90, 27 / 110),
        "throughput/samples_per_s": (100.0, 300.0),
    }
    node.send(
        allocation_id,
        metrics_record(
            {"loss": [(10, 4.0), (20, 3.5)]}
            | {name: [(10, a), (20, b)] for name, (a, b) in measured.items()}
        ),
    )

    (trial,) = show(f"/experiments/{experiment_id}/trials")["items"]
    assert trial["headline"] == "loss"
    page = show(f"/trials/{trial['id']}?summary=headline")
    assert (page["headline"], page["summary"]["loss"]["last"]) == ("loss", 3.5)
    (listed,) = show("/experiments")["items"]
    assert listed["headline"] == {
        "name": "loss", "trial_id": trial["id"], "last": 3.5, "best": 3.5, "step": 20,
    }  # fmt: skip
    assert "loss 3.5" in muster("list").stdout
    shown = " ".join(muster("show", str(experiment_id)).stdout.split())
    assert "loss 3.5 210 samples/s 18% 0" in shown, (
        "36 of 200 ms and 42 samples in them, not the newest row"
    )
    assert "kernel timeline" not in shown
    node.send(
        allocation_id,
        metrics_record({"comm/timeline_steps": [(10, 1.0), (20, 1.0)]}),
    )
    for named in (str(experiment_id), f"{experiment_id}.1"):
        shown = " ".join(muster("show", named).stdout.split())
        assert "come from the kernel timeline: 2 of 11 steps." in shown
