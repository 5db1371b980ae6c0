"""The controller seals the audit trail, and the command names the first record that does not fit."""

import datetime as dt
import functools
import os

import pytest
from pydantic import SecretStr
from sqlalchemy import delete, select, update

from muster_server import clock
from muster_server.db.models import AuditHeadRow, AuditRow
from muster_server.loops.runner import Controller
from muster_server.security.encryption import key_ring_or_none
from muster_server.security.stack_secrets import new_key
from muster_server.services.core import audit
from muster_server.services.secrets import audit_retention, audit_seals
from support import preloaded

KEYS = (new_key(), new_key())


@pytest.fixture
def settings(settings):
    return settings.model_copy(update={"secrets_key": SecretStr(KEYS[0])})


@pytest.fixture
def write(database):
    def add(*actions):
        with database.transaction() as session:
            for action in actions:
                audit.record(session, action, "x:1", audit.Author("user:ada", clock.now()), {"ratio": 0.1, "ä": [1, None]})  # fmt: skip

    return add


@pytest.fixture
def seal(controller, time_machine):
    def pass_time(seconds=20):
        time_machine.move_to(clock.now() + dt.timedelta(seconds=seconds))
        controller.tick()

    return pass_time


@pytest.fixture
def command(database):
    """Runs `muster-server` with these keys: (exit code, what it says)."""

    def run(*words, keys=KEYS[:1]):
        environment = {
            "PATH": os.environ["PATH"],
            "MUSTER_DATABASE_URL": database.url.render_as_string(hide_password=False),
            "MUSTER_SECRETS_KEY": " ".join(keys),
        }
        done = preloaded.run([preloaded.SERVER, *words], environment=environment, timeout_s=120)
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.fixture
def verify(command):
    return functools.partial(command, "audit", "verify")


def change(database, statement):
    with database.transaction() as session:
        session.execute(statement)


def test_records_are_sealed_once_they_have_settled(write, seal, verify, database):
    write("a", "b")
    seal(seconds=0)
    assert verify() == (0, "records that fit: 0; not sealed yet: 2\n")
    seal()
    write("c")
    seal()
    code, said = verify()
    assert (code, said.splitlines()[0]) == (0, "records that fit: 3; not sealed yet: 0")
    head = said.splitlines()[1].split()[2]
    assert "not signed" not in said
    write("d")
    seal()
    assert verify("--head", head)[0] == 0
    with database.read() as session:
        assert session.scalars(select(AuditRow.seal_no).order_by(AuditRow.id)).all() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (update(AuditRow).where(AuditRow.seal_no == 2).values(actor="user:eve"), "Record 2 ("),
        (update(AuditRow).where(AuditRow.seal_no == 3).values(detail={}), "Record 3 ("),
        (delete(AuditRow).where(AuditRow.seal_no == 1), "Record 1 is missing."),
        (delete(AuditRow).where(AuditRow.seal_no >= 2), "Records 2 to 3 are missing."),
        (delete(AuditHeadRow), "The seal of the newest record is missing."),
        (update(AuditHeadRow).values(digest="0" * 64), "was not signed with a key of this server"),
        (update(AuditHeadRow).values(seal_no=2), "was not signed with a key of this server"),
    ],
)  # fmt: skip
def test_what_was_done_to_it_is_named(write, seal, verify, database, statement, problem):
    write("a", "b", "c")
    seal()
    change(database, statement)
    for _ in range(2):
        code, said = verify()
        assert (code, problem in said) == (1, True), said
        write("later")
        seal()  # which must not hide it


def test_a_chain_made_anew_by_somebody_without_the_key_is_found(
    write, seal, verify, database, settings
):
    write("a", "b")
    seal()
    head = verify()[1].splitlines()[1].split()[2]
    change(database, update(AuditRow).values(seal_no=None, digest="", actor="user:eve"))
    change(database, delete(AuditHeadRow))
    keyless = Controller(database, settings.model_copy(update={"secrets_key": None}))
    write("c")
    seal_with(keyless, database)
    code, said = verify()
    assert code == 0
    assert "it is not signed" in said
    write("d")
    seal()
    assert "it is not signed" in verify()[1], "no signature vouches for it later"
    code, said = verify("--head", head)
    assert (code, "was replaced" in said) == (1, True), said


def seal_with(controller, database):
    with database.transaction() as session:
        now = clock.now() + dt.timedelta(minutes=1)
        assert audit_seals.seal_records(
            session, keys=key_ring_or_none(controller._settings), now=now
        )


def test_a_chain_from_before_there_was_a_key_is_signed_once(
    write, seal, command, verify, database, settings
):
    sign = functools.partial(command, "audit", "sign")
    write("a")
    seal_with(Controller(database, settings.model_copy(update={"secrets_key": None})), database)
    assert "it is not signed" in verify()[1]
    code, said = sign(keys=())
    assert (code, "no key" in said) == (1, True), said
    code, said = sign()
    assert (code, "it is not signed" in said) == (0, False), said
    write("b")
    seal()
    assert "it is not signed" not in verify()[1]
    code, said = sign()
    assert (code, "signed already" in said) == (1, True), said


def test_a_chain_that_does_not_fit_is_not_signed(write, command, database, settings):
    write("a", "b")
    seal_with(Controller(database, settings.model_copy(update={"secrets_key": None})), database)
    change(database, update(AuditRow).where(AuditRow.action == "a").values(actor="user:eve"))
    code, said = command("audit", "sign")
    assert code == 1, said


def test_keys_are_rotated(write, seal, command, verify):
    write("a")
    seal()
    assert command("secrets", "rotate", keys=KEYS[::-1])[0] == 0
    assert verify(keys=KEYS[1:])[0] == 0
    assert verify(keys=KEYS[:1])[0] == 1


@pytest.mark.parametrize("head", ["x", "1:abc", "1:" + "0" * 63])
def test_a_head_that_is_none_is_refused(verify, head):
    code, said = verify("--head", head)
    assert (code, "expected NO:DIGEST" in said) == (2, True)


def test_a_running_controller_goes_on_with_a_key_that_was_replaced(
    write, command, verify, database, settings, tmp_path, time_machine
):
    def seal():
        time_machine.move_to(clock.now() + dt.timedelta(seconds=20))
        controller.tick()

    file = tmp_path / "keys"
    file.touch(mode=0o600)
    file.write_text(KEYS[0])
    controller = Controller(
        database, settings.model_copy(update={"secrets_key": None, "secrets_key_file": file})
    )
    write("a")
    seal()
    file.write_text("\n".join(KEYS[::-1]))
    assert command("secrets", "rotate", keys=KEYS[::-1])[0] == 0
    file.write_text(KEYS[1])
    write("b")
    seal()
    code, said = verify(keys=KEYS[1:])
    assert (code, "not sealed yet: 0" in said) == (0, True), said


# ---------------------------------------------------------------- retention


@pytest.fixture
def remove(database, settings):
    """Removes what is older than 30 days, with the server's keys."""

    def run(**given):
        keys = key_ring_or_none(settings)
        given = {"days": 30, "keys": keys, "budget_s": 10.0} | given
        audit_retention.remove_old(database, clock.now(), **given)

    return run


@pytest.fixture
def aged(write, seal):
    """Three sealed records of 40 days ago, and one of now."""
    write("a", "b", "c")
    seal()
    seal(40 * 86400)
    write("d")
    seal()


def actions(database):
    with database.read() as session:
        return session.scalars(select(AuditRow.action).order_by(AuditRow.id)).all()


def test_old_records_go_and_the_rest_can_be_verified(aged, remove, seal, verify, database):
    noted = verify()[1].split("newest seal: ")[1].split()[0]
    remove()
    assert actions(database) == ["d", "audit.removed"]
    seal()
    code, said = verify()
    assert (code, "records that fit: 2" in said) == (0, True), said
    assert "records 1 to 3 were removed by retention" in said
    assert verify("--head", noted)[0] == 0
    remove()
    assert actions(database) == ["d", "audit.removed"], "one day later at the earliest"


def test_a_seal_of_a_removed_record_says_so(write, seal, remove, verify):
    write("a")
    seal()
    noted = verify()[1].split("newest seal: ")[1].split()[0]
    write("b", "c")
    seal()
    seal(40 * 86400)
    remove()
    code, said = verify("--head", noted)
    assert (code, "Record 1, whose seal was noted, was removed by retention" in said) == (1, True)


def test_the_newest_record_stays_and_the_chain_goes_on_from_it(write, seal, remove, verify):
    write("a", "b")
    seal()
    seal(40 * 86400)
    remove()
    write("c")
    seal()
    code, said = verify()
    assert (code, "records that fit: 3" in said) == (0, True), said  # b, audit.removed, c


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (delete(AuditHeadRow).where(AuditHeadRow.id == 2), "Records 1 to 3 are missing."),
        (
            update(AuditHeadRow).where(AuditHeadRow.id == 2).values(key_id="", seal_no=4),
            "Where the trail begins is not signed",
        ),
        (
            update(AuditHeadRow).where(AuditHeadRow.id == 2).values(seal_no=4, digest="0" * 64),
            "seal of the last removed record was not signed with a key of this server",
        ),
    ],
)
def test_nobody_without_the_key_moves_where_it_begins(
    aged, remove, seal, verify, database, statement, said
):
    remove()
    seal()
    change(database, statement)
    code, words = verify()
    assert (code, said in words) == (1, True), words


def test_nothing_is_removed_from_a_trail_that_was_changed(aged, remove, database):
    """Else whoever changes a record would only have to make it old."""
    change(database, update(AuditRow).where(AuditRow.action == "b").values(actor="user:eve"))
    remove()
    assert actions(database) == ["a", "b", "c", "d"]


def test_where_it_begins_is_signed_with_a_new_key_too(aged, remove, seal, command, verify):
    remove()
    seal()
    assert command("secrets", "rotate", keys=KEYS[::-1])[0] == 0
    code, said = verify(keys=KEYS[1:])
    assert code == 0, said
