"""Reports over REST: who reads, changes and freezes them, and what their blocks and files show."""

from __future__ import annotations

import csv
import io
import json
import statistics
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from muster_server.db.models import (
    AuditRow,
    ExperimentRow,
    MediaRow,
    ProjectRow,
    ReportRow,
    TrialRow,
)
from muster_server.services.metrics import ingest
from muster_server.services.reports import content as content_module
from muster_server.services.reports import pages
from support.data import NOW, add_attempt, add_experiment, add_trial, metrics_record

pytestmark = pytest.mark.both_databases

API = "/api/v1/reports"
LOSSES = {0.1: [0.5, 0.7, 0.6], 0.01: [0.25, 0.75, "NaN"]}
TABLE = {
    "kind": "table",
    "title": "Loss",
    "group_by": ["hparam.lr"],
    "columns": ["metric.last.val/loss"],
    "headers": {"metric.last.val/loss": "Loss"},
}


@pytest.fixture
def seeds(database):
    """An experiment with three seeds of two learning rates, with curves of the first seed."""
    with database.transaction() as session:
        experiment = add_experiment(session)
        experiment.labels = {"paper": "icml"}
        search = replace(experiment.config.search, trials=6)
        experiment.config = replace(experiment.config, search=search)
        ids, no = [], 0
        for lr, losses in LOSSES.items():
            for seed, loss in enumerate(losses):
                no += 1
                trial = add_trial(session, experiment, no=no)
                trial.hparams = {"lr": lr, "seed": seed}
                trial.state = "COMPLETED" if no != 6 else "FAILED"
                ids.append(trial.id)
                if seed == 0:
                    (allocation,) = add_attempt(session, trial)
                    points = metrics_record({"val/loss": [(s, lr / s) for s in range(1, 40)]})
                    ingest.ingest(session, allocation=allocation, seq=1, record=points, at=NOW)
                trial.summary = {"val/loss": {"last": loss, "min": None, "max": None, "step": 9}}
        return {"experiment": experiment.id, "trials": ids}


@pytest.fixture
def eve(connect, make_user_token):
    return connect(token=make_user_token("member", username="eve"))


@pytest.fixture
def project(database):
    with database.transaction() as session:
        session.add(ProjectRow(name="default", submission="all", created_at=NOW))


def make(client, *blocks, **changes):
    body = {"project": "default", "title": "Seeds", "blocks": list(blocks), **changes}
    answer = client.post(API, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def shown(client, report):
    answer = client.get(f"{API}/{report['id']}/content")
    assert answer.status_code == 200, answer.text
    return answer.json()["blocks"]


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def exported(client, report, form):
    answer = client.get(f"{API}/{report['id']}/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_a_table_has_mean_and_deviation_over_seeds(member_client, viewer_client, seeds):
    report = make(member_client, {**TABLE, "runs": {"experiments": [seeds["experiment"]]}})
    (block,) = shown(viewer_client, report)
    assert block["table"]["head"] == ["lr", "Loss"]
    low, high = block["table"]["rows"]
    assert (low["keys"], low["trial_ids"]) == (["0.01"], seeds["trials"][3:])
    (cell,) = low["cells"]
    assert cell["text"] == "0.50 ± 0.35 (n=2)"
    assert cell["deviation"] == pytest.approx(statistics.stdev([0.25, 0.75]))
    assert (cell["num"], cell["num_missing"], cell["num_not_finite"]) == (2, 0, 1)
    assert cell["trial_ids"] == seeds["trials"][3:5]
    assert high["cells"][0]["value"] == pytest.approx(0.6)


def test_runs_are_chosen_by_label_state_and_number(member_client, seeds):
    def trials(**runs):
        table = {"kind": "table", "columns": ["seed", "hparam.seed"], "runs": runs}
        (block,) = shown(member_client, make(member_client, table))
        if block["problem"]:
            return block["problem_parts"][0]["code"]
        return [row["trial_ids"][0] for row in block["table"]["rows"]]

    ids = seeds["trials"]
    assert trials(labels=["paper=icml"], only_completed=True) == ids[:5]
    assert trials(labels=["paper"], trials=[ids[0]]) == ids
    assert trials(trials=[ids[4], ids[2]]) == [ids[2], ids[4]]
    assert trials(labels=["paper=neurips"]) == "report.no_runs"


def test_rows_are_compared_with_a_baseline(member_client, seeds):
    runs = {"experiments": [seeds["experiment"]]}
    report = make(
        member_client,
        {**TABLE, "runs": runs, "baseline": seeds["trials"][0]},
        {**TABLE, "runs": {"trials": seeds["trials"][:2]}, "baseline": seeds["trials"][5]},
    )
    first, second = shown(member_client, report)
    low, base = first["table"]["rows"]
    assert base["is_baseline"]
    assert base["cells"][0]["difference"] is None
    assert low["cells"][0]["difference"] == pytest.approx(-0.1)
    assert second["problem"] == (
        f"The baseline, trial {seeds['trials'][5]}, is not among these runs."
    )


def test_a_chart_has_the_curves_of_its_runs_in_groups(member_client, seeds):
    chart = {
        "kind": "chart", "metrics": ["val/loss"], "expressions": ["val/loss * 2"],
        "group_by": "hparam.lr", "log": True, "runs": {"experiments": [seeds["experiment"]]},
    }  # fmt: skip
    (block,) = shown(member_client, make(member_client, chart))
    assert [curve["trial_id"] for curve in block["curves"]["items"]] == [
        seeds["trials"][0],
        seeds["trials"][3],
    ]
    assert block["curves"]["items"][0]["series"]["mean"][1] == pytest.approx(0.05)
    assert [run["group"] for run in block["runs"]] == ["lr=0.01"] * 3 + ["lr=0.1"] * 3
    assert (block["expressions"], block["log"]) == (["val/loss * 2"], True)


def test_the_latest_media_of_a_name_are_shown(member_client, database, seeds, monkeypatch):
    with database.transaction() as session:
        for step, data in ((1, b"old"), (5, b"new"), (9, b"late")):
            session.add(
                MediaRow(
                    trial_id=seeds["trials"][0], attempt_no=1, name="note", kind="text", step=step,
                    rank=0, at=NOW, mime="text/plain", sha256="0" * 64, size_bytes=3, caption="c",
                    width=0, height=0, data=data, file="", node_name="n", storage_id="",
                )
            )  # fmt: skip
    media = {"kind": "media", "names": ["note"], "runs": {"trials": seeds["trials"][:2]}, "step": 7}
    report = make(member_client, media)
    (one,) = shown(member_client, report)[0]["media"]
    assert (one["item"]["step"], one["data"]) == (5, "bmV3")
    assert "<pre>new</pre>" in exported(member_client, report, "html")
    monkeypatch.setattr(content_module, "MEDIA_RUNS_MAX", 1)
    assert shown(member_client, report)[0]["problem_parts"][0]["params"] == {"limit": 1}


def test_a_frozen_report_keeps_its_values(member_client, viewer_client, database, seeds):
    runs = {"experiments": [seeds["experiment"]]}
    chart = {"kind": "chart", "metrics": ["val/loss"], "runs": runs}
    report = make(member_client, {**TABLE, "runs": runs}, chart)
    before = shown(member_client, report)
    frozen = member_client.post(f"{API}/{report['id']}:freeze").json()
    assert frozen["frozen_at"] is not None
    assert frozen["version"] == 2
    with database.transaction() as session:
        session.execute(update(TrialRow).values(summary={}))
        session.execute(update(ExperimentRow).values(name="renamed"))
    assert shown(viewer_client, report) == before
    latex = exported(viewer_client, report, "latex")
    assert r"0.01 & $0.50 \pm 0.35 (n=2)$ & 3 \\" in latex
    refused = member_client.patch(f"{API}/{report['id']}", json={"version": 2, "title": "x"})
    assert error(refused) == (409, "reports.frozen")
    member_client.post(f"{API}/{report['id']}:unfreeze")
    assert shown(member_client, report)[0]["table"]["rows"][0]["cells"][0]["text"] == "–"


def test_what_is_too_large_cannot_be_frozen(member_client, monkeypatch, seeds):
    monkeypatch.setattr(content_module, "CONTENT_BYTES_MAX", 2_000)
    text = {"kind": "markdown", "text": "x" * 1_500}
    report = make(member_client, text, text, text)
    assert [bool(block["problem"]) for block in shown(member_client, report)] == [False, True, True]
    assert error(member_client.post(f"{API}/{report['id']}:freeze")) == (409, "reports.too_large")


def test_two_people_do_not_overwrite_each_other(member_client, eve, project):
    report = make(member_client)
    path = f"{API}/{report['id']}"
    text = {"kind": "markdown", "text": "mine"}
    assert member_client.patch(path, json={"version": 1, "blocks": [text]}).json()["version"] == 2
    late = eve.patch(path, json={"version": 1, "title": "Theirs"})
    assert error(late) == (409, "reports.changed")
    assert "version 2" in late.json()["error"]["message"]
    changed = eve.patch(path, json={"version": 2, "title": "Theirs"}).json()
    assert (changed["title"], changed["version"], changed["blocks"]) == ("Theirs", 3, [text])


def test_viewers_read_and_members_write(
    member_client, viewer_client, eve, admin_client, database, project
):
    report = make(member_client)
    path = f"{API}/{report['id']}"
    assert viewer_client.get(path).json()["may_change"] is False
    assert [one["title"] for one in viewer_client.get(API).json()["items"]] == ["Seeds"]
    assert viewer_client.post(f"{path}:freeze").status_code == 403
    assert viewer_client.post(f"{path}/comments", json={"text": "x"}).status_code == 403
    assert eve.get(path).json()["may_manage"] is False
    assert error(eve.delete(path)) == (403, "reports.not_yours")
    with database.transaction() as session:
        session.scalars(select(ProjectRow)).one().submission = "members"
    assert error(eve.post(f"{path}:freeze")) == (403, "projects.not_member")
    assert admin_client.delete(path).status_code == 204
    assert error(member_client.get(path)) == (404, "reports.not_found")
    with database.read() as session:
        actions = set(session.scalars(select(AuditRow.action)))
    assert {"reports.created", "reports.deleted"} <= actions


def test_comments_are_kept_in_order_and_deleted_by_their_authors(
    member_client, eve, viewer_client, project
):
    report = make(member_client)
    path = f"{API}/{report['id']}/comments"
    first = member_client.post(path, json={"text": "Why **three** seeds?"}).json()
    second = eve.post(path, json={"text": "Costs."}).json()
    items = viewer_client.get(path).json()["items"]
    assert [(one["text"], one["may_delete"]) for one in items] == [
        ("Why **three** seeds?", False),
        ("Costs.", False),
    ]
    assert error(eve.delete(f"{path}/{first['id']}")) == (403, "reports.not_yours")
    assert eve.delete(f"{path}/{second['id']}").status_code == 204
    assert error(eve.delete(f"{path}/{second['id']}")) == (404, "reports.no_comment")


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"kind": "pie"}, "blocks.0"),
        ({**TABLE, "runs": {}}, "blocks.0.runs"),
        ({**TABLE, "runs": {"trials": [987]}}, "blocks.0.runs.trials"),
        ({**TABLE, "runs": {"experiments": [987]}}, "blocks.0.runs.experiments"),
        ({**TABLE, "runs": {"labels": ["x"]}, "columns": ["loss"]}, "blocks.0.columns.0"),
        (
            {**TABLE, "runs": {"labels": ["x"]}, "group_by": ["metric.mean.x"]},
            "blocks.0.group_by.0",
        ),
        ({**TABLE, "runs": {"labels": ["x"]}, "decimals": 13}, "blocks.0.table.decimals"),
        ({"kind": "chart", "metrics": [], "runs": {"labels": ["x"]}}, "blocks.0.chart.metrics"),
    ],
)
def test_what_cannot_work_is_named(member_client, seeds, block, field):
    body = {"project": "default", "title": "x", "blocks": [block]}
    refused = member_client.post(API, json=body)
    assert refused.status_code == 422, refused.text
    assert field in [one["path"] for one in refused.json()["error"]["fields"]], refused.text
    assert member_client.get(API).json()["items"] == []


def test_runs_of_other_projects_are_refused(member_client, database, seeds):
    with database.transaction() as session:
        other = add_experiment(session, project="secret").id
    body = {"project": "default", "title": "x"}
    block = {**TABLE, "runs": {"experiments": [other]}}
    refused = member_client.post(API, json={**body, "blocks": [block]})
    (field,) = refused.json()["error"]["fields"]
    assert "not in project default" in field["message"]
    unknown = member_client.post(API, json={**body, "project": "nowhere"})
    assert error(unknown) == (404, "projects.not_found")


def test_bounds_are_named(member_client, monkeypatch, seeds):
    many = [{"kind": "markdown", "text": ""}] * 51
    body = {"project": "default", "title": "x"}
    assert member_client.post(API, json={**body, "blocks": many}).status_code == 422
    large = [{"kind": "markdown", "text": "x" * 20_000}] * 40
    refused = member_client.post(API, json={**body, "blocks": large})
    assert "512 KiB" in refused.json()["error"]["message"]
    report = make(member_client, {**TABLE, "runs": {"experiments": [seeds["experiment"]]}})
    monkeypatch.setattr(content_module, "RUNS_MAX", 5)
    (block,) = shown(member_client, report)
    assert block["problem"] == "More than 5 runs match. Narrow the choice of runs."
    monkeypatch.setattr(pages, "REPORTS_MAX", 1)
    assert error(member_client.post(API, json=body)) == (409, "reports.too_many")
    monkeypatch.setattr(pages, "COMMENTS_MAX", 0)
    comment = member_client.post(f"{API}/{report['id']}/comments", json={"text": "x"})
    assert error(comment) == (409, "reports.too_many_comments")


HOSTILE = (
    "# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1)) "
    "![y](https://example.org/p.png)"
)


def test_files_have_the_values_and_run_nothing(member_client, seeds):
    runs = {"experiments": [seeds["experiment"]]}
    report = make(
        member_client,
        {"kind": "markdown", "text": HOSTILE},
        {**TABLE, "runs": runs, "title": "<b>Loss & more</b>"},
        {"kind": "chart", "title": "Curves", "metrics": ["val/loss"], "runs": runs},
        title="A <i>report</i>",
    )
    page = exported(member_client, report, "html")
    for bad in ("<script", "<img src=x", 'href="javascript:', "<b>", "<i>", 'src="https'):
        assert bad not in page, bad
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 1
    assert "0.50 ± 0.35 (n=2)" in page
    ids = "%2C".join(map(str, seeds["trials"][3:5]))
    assert f"/compare?trials={ids}" in page
    rows = list(csv.reader(io.StringIO(exported(member_client, report, "csv"))))
    assert rows[0] == ["lr", "Loss", "Loss sd", "Loss n", "trials"]
    assert rows[1][0] == "0.01"
    assert float(rows[1][1]) == 0.5
    assert rows[1][3] == "2"
    assert float(rows[2][2]) == pytest.approx(statistics.stdev(LOSSES[0.1]))
    latex = exported(member_client, report, "latex")
    assert r"\toprule" in latex
    assert r"0.1 & $0.60 \pm 0.10$ & 3 \\" in latex
    markdown = exported(member_client, report, "md")
    assert "| 0.01 | 0.50 ± 0.35 (n=2) | 3 |" in markdown
    assert HOSTILE in markdown
    assert "| data \\#1 | val/loss |" in markdown


def test_a_project_is_deleted_with_its_reports(admin_client, database):
    admin_client.post("/api/v1/projects", json={"name": "vision"})
    report = make(admin_client, project="vision")
    admin_client.post(f"{API}/{report['id']}/comments", json={"text": "x"})
    deleted = admin_client.delete("/api/v1/projects/vision")
    assert deleted.status_code == 204, deleted.text
    with database.read() as session:
        assert session.scalars(select(ReportRow.id)).all() == []


def test_commands_list_show_and_export(member_client, seeds, muster, tmp_path):
    report = make(member_client, {**TABLE, "runs": {"experiments": [seeds["experiment"]]}})
    assert json.loads(muster("report", "list", "--json").stdout)[0]["title"] == "Seeds"
    assert "Seeds" in muster("report", "list", "--project", "default").output
    assert "0.50 ± 0.35 (n=2)" in muster("report", "show", str(report["id"])).output
    target = tmp_path / "table.tex"
    export = ("report", "export", str(report["id"]), "--format")
    assert "Wrote" in muster(*export, "latex", "-o", str(target)).output
    assert r"\bottomrule" in target.read_text()
    assert muster(*export, "csv").output.startswith("lr,Loss,")
    assert "There is no report 99" in str(muster("report", "show", "99").exception)
    assert muster(*export, "pdf").exit_code == 2
    file = tmp_path / "report.yaml"
    file.write_text("project: default\ntitle: Third\nblocks: [{kind: markdown, text: Hi}]\n")
    assert "(Third): http" in muster("report", "create", str(file)).output
    file.write_text("[")
    assert "is no YAML" in str(muster("report", "create", str(file)).exception)
    assert "cannot be read" in str(muster("report", "create", "nowhere.yaml").exception)
