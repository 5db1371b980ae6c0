from __future__ import annotations

import pytest

from muster_models.domain.deployments.routing import (
    RoutedServer,
    Routes,
    SeenServer,
    UnusableAddress,
    acl_commands,
    configuration,
    map_commands,
    name_digest,
    read_entries,
    read_stats,
    server_commands,
)

STATS = """\
# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,hrsp_5xx,-
d1,r7x1,0,0,2,3,,40,1,1,,0,,0,1,0,0,UP,3,
d1,r8x2,1,0,0,3,,,1,1,,0,,0,0,0,0,DOWN 1/2,,
"""


def server(name: str = "r7x1", *, drains: bool = False, host: str = "127.0.0.1") -> RoutedServer:
    return RoutedServer(backend="d1", name=name, host=host, port=9000, drains=drains)


def test_statistics_are_read() -> None:
    assert read_stats(STATS) == [
        SeenServer(backend="d1", name="r7x1", status="UP", num_sessions=2, num_requests=40,
                   num_errors=4),
        SeenServer(backend="d1", name="r8x2", status="DOWN 1/2", num_sessions=1),
    ]  # fmt: skip


def test_a_new_server_is_added_checked_and_enabled() -> None:
    assert list(server_commands([server()], [])) == [
        "add server d1/r7x1 127.0.0.1:9000 check inter 500ms fall 2 rise 1 maxconn 256",
        "enable health d1/r7x1",
        "enable server d1/r7x1",
    ]
    assert list(server_commands([server(drains=True)], [])) == []


def test_a_server_is_drained_once_and_deleted_when_it_is_not_wanted() -> None:
    up = SeenServer(backend="d1", name="r7x1", status="UP")
    drained = SeenServer(backend="d1", name="r7x1", status="DRAIN")
    assert list(server_commands([server()], [up])) == []
    assert list(server_commands([server(drains=True)], [up])) == ["set server d1/r7x1 state drain"]
    assert list(server_commands([server(drains=True)], [drained])) == []
    assert list(server_commands([server()], [drained])) == ["set server d1/r7x1 state ready"]
    assert list(server_commands([], [drained])) == [
        "set server d1/r7x1 state maint",
        "del server d1/r7x1",
    ]
    gone = SeenServer(backend="d1", name="r7x1", status="MAINT")
    assert list(server_commands([], [gone])) == ["del server d1/r7x1"]


def test_lists_are_changed_entry_by_entry() -> None:
    seen = read_entries("0x55d0 a 1\n0x55d1 b 2\n\n")
    assert seen == {"a": "1", "b": "2"}
    assert list(map_commands("m", {"b": "3", "c": "4"}, seen)) == [
        "del map m a",
        "set map m b 3",
        "add map m c 4",
    ]
    assert list(acl_commands("t", frozenset({"x"}), frozenset({"y"}))) == [
        "del acl t y",
        "add acl t x",
    ]


def test_only_addresses_get_into_commands_and_configuration() -> None:
    with pytest.raises(UnusableAddress):
        list(server_commands([server(host="a\nshow env")], []))
    assert "[::1]:9000" in next(server_commands([server(host="::1")], []))


def test_the_configuration_has_the_present_set_and_no_name() -> None:
    routes = Routes(
        names={name_digest("secret-name"): "d1"},
        keys={"d1": "0" * 64},
        servers=(server(), server("r9x1", drains=True)),
    )
    text = configuration(routes, folder="/f", socket="/f/s", host="0.0.0.0", port=8471)
    assert "server r7x1 127.0.0.1:9000 check" in text
    assert "r9x1" not in text
    assert "secret-name" not in text
    assert "bind 0.0.0.0:8471" in text
