"""Cordon, drain and open a node from its page; what will happen is said beforehand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.pages import violations
from support.stack import Stack, scripted, wait_for

pytestmark = pytest.mark.browser

SLOW_MS = 90_000


def test_draining_names_the_trials_that_move_and_they_go_on_elsewhere(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        training = {"epochs": 5000, "steps_per_epoch": 10, "step_s": 0.05}
        document = scripted("moves-away", [{"train": training}])
        experiment = client.post("/experiments", {"document": document})
        trial_id = experiment["only_trial_id"]

        def trial() -> Any:
            return client.get(f"/trials/{trial_id}")

        wait_for("it saved a checkpoint", lambda: trial()["step"] > 20, 90)
        (name,) = trial()["attempts"][0]["nodes"]
        node = next(n for n in client.get("/nodes")["items"] if n["name"] == name)

        page.goto(f"{stack.url}/nodes/{node['id']}")
        expect(page.get_by_test_id("node-trials")).to_contain_text("moves-away")
        page.get_by_test_id("node-draining").click()
        effect = page.get_by_test_id("node-effect")
        expect(effect).to_contain_text("does not count as a restart")
        expect(effect).to_contain_text(f"moves-away · trial {trial_id} · 1 slot")
        page.get_by_test_id("confirm").click()
        expect(page.get_by_text("This node is draining")).to_be_visible()

        wait_for("it runs elsewhere", lambda: runs_elsewhere(trial(), name), 90)
        expect(page.get_by_test_id("node-trials")).to_have_count(0, timeout=SLOW_MS)
        ran = page.get_by_test_id("node-history").get_by_role("row").nth(1)
        expect(ran).to_contain_text("moves-away")
        expect(ran).not_to_contain_text("still running")

        page.goto(f"{stack.url}/trials/{trial_id}?tab=events")
        attempts = page.get_by_test_id("attempts")
        expect(attempts).to_contain_text("Preempted")
        expect(attempts).to_contain_text(re.compile("drain"))

        page.goto(f"{stack.url}/nodes/{node['id']}")
        page.get_by_test_id("node-open").click()
        expect(page.get_by_test_id("node-effect")).to_contain_text("may be placed here again")
        page.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("node-cordoned")).to_be_visible()
        client.stop(experiment["id"])
        client.wait(experiment["id"], timeout_s=60)


def runs_elsewhere(trial: Any, name: str) -> bool:
    return trial["state"] == "RUNNING" and name not in trial["attempts"][0]["nodes"]


def test_cordoning_lets_what_runs_go_on(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        node = client.get("/nodes")["items"][0]
        page.goto(f"{stack.url}/nodes/{node['id']}")
        expect(page.get_by_text("no problems found")).to_be_visible()
        expect(page.get_by_text("from the server's clock")).to_be_visible(timeout=SLOW_MS)
        expect(page.get_by_test_id("node-release")).to_have_count(0)
        page.get_by_test_id("node-cordoned").click()
        expect(page.get_by_test_id("node-effect")).to_contain_text("Nothing is running here now")
        page.get_by_test_id("confirm").click()
        expect(page.get_by_text("This node is cordoned")).to_be_visible()
        assert client.get(f"/nodes/{node['id']}")["scheduling"] == "cordoned"
        page.get_by_test_id("node-open").click()
        page.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("node-cordoned")).to_be_visible()
        assert client.get(f"/nodes/{node['id']}")["scheduling"] == "open"


def test_nodes_try_each_other_and_the_result_is_shown(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    page.goto(f"{stack.url}/nodes")
    page.get_by_test_id("select-all").check()
    page.get_by_test_id("preflight").click()
    begin = page.get_by_test_id("preflight-begin")
    expect(begin).to_have_text("Check 2 nodes")
    begin.click()
    # The address changes before the page does.
    expect(page.locator("main h1")).to_have_text(re.compile(r"^Preflight \d+"))
    expect(page).to_have_url(re.compile(r"/preflights/\d+$"))
    state = page.get_by_test_id("preflight-state")
    expect(state).to_have_attribute("data-state", "passed", timeout=SLOW_MS)
    expect(page.get_by_test_id("preflight-verdict")).to_contain_text("all 2 connections")
    pairs = page.get_by_test_id("preflight-pairs")
    expect(pairs.locator("td", has_text=" ms")).to_have_count(2)
    expect(page.get_by_test_id("preflight-nodes")).to_contain_text("OK")

    # Each node's page begins with itself chosen.
    page.get_by_test_id("preflight-nodes").get_by_role("link", name="local-1").click()
    expect(page.locator("main h1")).to_have_text(re.compile("^local-1"))
    page.get_by_test_id("preflight").click()
    expect(page.get_by_test_id("preflight-begin")).to_have_text("Check 1 node")
    page.goto(f"{stack.url}/nodes")
    expect(page.get_by_test_id("preflights")).to_contain_text("passed")


def test_a_machine_becomes_a_node_and_gets_its_first_job(
    signed_in: BrowserContext, stack: Stack, page: Page, tmp_path: Path
) -> None:
    page.goto(f"{stack.url}/nodes")
    page.get_by_role("link", name="Add a node").click()
    expect(page.get_by_test_id("join")).to_contain_text("muster node add USER@HOST --pool default")
    page.get_by_test_id("tab-command").click()
    page.get_by_role("button", name="Create command").click()
    words = page.get_by_test_id("join").inner_text().split()
    assert words[-2:] == ["muster-agent", "run"]
    given = dict(word.split("=", 1) for word in words[:-2])
    options = ["--name", "by-hand", "--slots", "1", "--home", str(tmp_path / "agent")]
    with subprocess.Popen(
        [Path(sys.executable).with_name("muster-agent"), "run", *options],
        env={**Stack.environment(tmp_path), **given},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as agent:
        try:
            step = page.get_by_test_id("step-arrive")
            expect(step.get_by_role("link", name="by-hand")).to_be_visible()
            expect(step).to_have_attribute("data-done", "true", timeout=SLOW_MS)
            page.get_by_role("button", name="Run preflight").click()
            check = page.get_by_test_id("step-check")
            expect(check).to_have_attribute("data-done", "true", timeout=SLOW_MS)
            assert "\n".join(violations(page)) == ""
            page.get_by_role("link", name="Try a job on by-hand").click()
            page.get_by_test_id("submit").click()
            expect(page).to_have_url(re.compile(r"/trials/\d+$"))
            trial_id = int(page.url.rpartition("/")[2])
            with stack.client() as client:
                wait_for(
                    "the job has run",
                    lambda: client.get(f"/trials/{trial_id}")["state"] == "COMPLETED",
                    120,
                )
                workers = client.get(f"/trials/{trial_id}/workers")["items"]
                assert {worker["node_name"] for worker in workers} == {"by-hand"}
        finally:
            agent.terminate()
            agent.wait(60)
            with stack.client() as client:
                (node,) = (n for n in client.pages("/nodes") if n["name"] == "by-hand")
                client.patch(f"/nodes/{node['id']}", {"scheduling": "cordoned"})
                wait_for(
                    "the node is silent", lambda: client.delete(f"/nodes/{node['id']}") or True, 90
                )


def test_a_quarantined_node_is_released(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        last = max((e["id"] for e in client.get("/experiments")["items"]), default=0)
        in_the_way = [stack.home / "storage" / f"experiment-{last + n}" for n in range(1, 4)]
        for path in in_the_way:  # where a folder has to be made for the checkpoints
            path.write_text("")
        for _ in in_the_way:
            document = scripted(
                "cannot-prepare",
                [],
                resources={"slots": 1, "allow_nodes": ["local-2"]},
                restarts={"infra": 0},
            )
            experiment = client.post("/experiments", {"document": document})
            client.wait(experiment["id"], timeout_s=90)
        node = next(n for n in client.get("/nodes")["items"] if n["name"] == "local-2")
        assert node["health"] == "quarantined"

        page.goto(f"{stack.url}/nodes/{node['id']}")
        expect(page.get_by_text("This node is quarantined")).to_be_visible()
        page.get_by_test_id("node-release").click()
        effect = page.get_by_test_id("node-effect")
        expect(effect).to_contain_text("could not prepare 3 times in a row")
        page.get_by_test_id("confirm").click()
        expect(page.get_by_text("no problems found")).to_be_visible()
        expect(page.get_by_test_id("node-release")).to_have_count(0)
        assert client.get(f"/nodes/{node['id']}")["health"] == "ok"


def test_everybody_sees_maintenance_without_a_reload_until_it_ends(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        page.goto(f"{stack.url}/queue")
        banner = page.get_by_test_id("maintenance-banner")
        expect(page.get_by_test_id("live-state")).to_have_attribute("data-state", "live")
        expect(banner).to_have_count(0)
        planned = client.post(
            "/maintenance",
            {"reason": "new switch", "starts_at": "3h", "ends_at": "1h", "running": "keep"},
        )
        expect(banner).to_contain_text("Maintenance of the cluster from 20")
        expect(banner).to_contain_text("new switch")
        expect(banner).to_contain_text("Running trials will continue")
        banner.get_by_role("button", name="Dismiss this announcement").click()
        expect(banner).to_have_count(0)

        page.goto(f"{stack.url}/nodes")
        expect(page.get_by_test_id("maintenance")).to_contain_text("new switch")
        page.get_by_test_id("maintenance-plan").click()
        form = page.get_by_test_id("maintenance-form")
        form.get_by_label("Reason").fill("replace disks")
        form.get_by_role("button", name="Start now").click()
        expect(banner).to_contain_text("replace disks")
        expect(banner).to_contain_text("Nothing new starts")
        expect(page.get_by_test_id("nodes").get_by_text("in maintenance")).not_to_have_count(0)
        expect(banner.get_by_role("button")).to_have_count(0)
        expect(page.get_by_test_id("nodes")).to_be_visible()

        row = page.get_by_test_id("maintenance").get_by_role("row").filter(has_text="replace disks")
        row.get_by_test_id("maintenance-end").click()
        page.get_by_test_id("confirm").click()
        expect(banner).to_have_count(0)
        client.post(f"/maintenance/{planned['id']}:end")
        expect(page.get_by_test_id("maintenance")).to_have_count(0)


def test_nodes_are_reserved_changed_and_given_back_on_the_page(
    signed_in: BrowserContext, stack: Stack, page: Page
) -> None:
    with stack.client() as client:
        client.post("/projects", {"name": "reserving"})
        (name, *_) = sorted(node["name"] for node in client.pages("/nodes"))
        page.goto(f"{stack.url}/nodes")
        page.get_by_test_id("reserve").click()
        form = page.get_by_test_id("reservation-form")
        form.get_by_role("checkbox", name=name).check()
        form.get_by_role("textbox", name="Project").fill("reserving")
        form.get_by_label("Reason").fill("paper deadline")
        form.get_by_role("button", name="Reserve").click()
        expect(page.get_by_test_id("reservations")).to_contain_text("paper deadline")
        expect(page.get_by_test_id("reservation-lines")).to_contain_text("reserving")
        page.get_by_test_id("reservations-change").click()
        assert violations(page) == []
        length = form.get_by_label("Length")
        expect(length).to_have_value("8h")
        length.fill("12h")
        form.get_by_role("button", name="Save").click()
        expect(form).to_have_count(0)
        (changed,) = [
            x for x in client.get("/audit")["items"] if x["action"] == "reservation.change"
        ]
        assert changed["detail"] == {"ends_at": "12h"}
        page.get_by_test_id("reservations-end").click()
        page.get_by_test_id("confirm").click()
        expect(page.get_by_test_id("reservations")).to_have_count(0)
        (made,) = [x for x in client.get("/audit")["items"] if x["action"] == "reservation.create"]
        assert made["detail"]["nodes"] == [name]
