"""Links to reports for people without an account: what they show, when they end, who makes them."""

from __future__ import annotations

import datetime as dt

import pytest
import time_machine
from sqlalchemy import select

from muster_server import clock
from muster_server.db.models import AuditRow, ReportLinkRow
from muster_server.services.reports import links
from support.data import add_experiment, add_trial

pytestmark = pytest.mark.both_databases

API = "/api/v1/reports"


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"report_links": True})


@pytest.fixture
def report(member_client, database):
    with database.transaction() as session:
        trial = add_trial(session, add_experiment(session))
        trial.hparams = {"lr": 0.125, "secret": "hunter2"}
        id_ = trial.id
    table = {"kind": "table", "columns": ["hparam.lr"], "runs": {"trials": [id_]}}
    body = {"project": "default", "title": "For reviewers", "blocks": [table]}
    return f"{API}/{member_client.post(API, json=body).json()['id']}"


def link_of(client, report, **body):
    answer = client.post(f"{report}/links", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def opened(client, link):
    token = link["url"].split("#report=")[1]
    return client.post("/api/v1/shared-report", json={"token": token})


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_stranger_sees_the_blocks_and_nothing_else(member_client, client, report, database):
    link = link_of(member_client, report)
    answer = opened(client, link)
    assert answer.status_code == 200, answer.text
    shared = answer.json()
    assert shared["title"] == "For reviewers"
    (row,) = shared["content"]["blocks"][0]["table"]["rows"]
    assert row["cells"][0]["text"] == "0.125"
    assert "hunter2" not in answer.text
    for path in (report, f"{report}/content", f"{report}/export", API, f"{report}/comments"):
        assert client.get(path).status_code == 401
    token = link["url"].split("#report=")[1]
    with database.read() as session:
        row = session.scalars(select(ReportLinkRow)).one()
        assert row.last_used_at is not None
        assert token not in row.secret_hash
        found = session.scalars(select(AuditRow).where(AuditRow.action == "reports.link_opened"))
        assert [one.actor for one in found] == [f"link:{row.id}"]
    # The secret is for this page alone.
    assert client.get(API, headers={"Authorization": f"Bearer {token}"}).status_code == 401
    (listed,) = member_client.get(f"{report}/links").json()
    assert "url" not in listed
    assert listed["last_used_at"] is not None


def test_a_link_ends_by_itself_or_by_hand(member_client, client, report):
    short, long = link_of(member_client, report, days=1), link_of(member_client, report, days=30)
    with time_machine.travel(clock.now() + dt.timedelta(days=2), tick=False):
        assert error(opened(client, short)) == (401, "reports.bad_link")
        assert opened(client, long).status_code == 200
    assert member_client.delete(f"{report}/links/{long['id']}").status_code == 204
    assert error(opened(client, long)) == (401, "reports.bad_link")
    assert opened(client, short).status_code == 200
    member_client.delete(report)
    assert error(opened(client, short)) == (401, "reports.bad_link")


def test_guesses_are_limited_and_written_down(client, report, database):
    guess = {"url": "x#report=mst_once_guess"}
    answers = [opened(client, guess).status_code for _ in range(40)]
    assert answers[0] == 401
    assert answers[-1] == 429
    with database.read() as session:
        action = select(AuditRow).where(AuditRow.action == "auth.link_refused")
        assert session.scalars(action).first().subject == "report"


def test_only_who_may_manage_a_report_makes_links(
    member_client, viewer_client, connect, make_user_token, admin_client, report, monkeypatch
):
    eve = connect(token=make_user_token("member", username="eve"))
    assert error(eve.post(f"{report}/links", json={})) == (403, "reports.not_yours")
    assert viewer_client.get(f"{report}/links").status_code == 403
    assert link_of(admin_client, report)["created_by"] != "member"
    assert member_client.post(f"{report}/links", json={"days": 91}).status_code == 422
    assert error(member_client.delete(f"{report}/links/99")) == (404, "reports.no_link")
    monkeypatch.setattr(links, "LINKS_MAX", 1)
    assert error(member_client.post(f"{report}/links", json={})) == (409, "reports.too_many_links")


def test_links_are_off_by_default(settings, member_client, client, report, app, monkeypatch):
    link = link_of(member_client, report)
    assert member_client.get(report).json()["links_on"] is True
    off = settings.model_copy(update={"report_links": False})
    assert type(settings)(database_url="sqlite://").report_links is False
    monkeypatch.setattr(app.state, "settings", off)
    assert error(opened(client, link)) == (401, "reports.bad_link")
    assert error(member_client.post(f"{report}/links", json={})) == (403, "reports.links_off")
