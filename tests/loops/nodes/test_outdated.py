"""Which nodes have an agent of another version than the server, on the command line."""

from sqlalchemy import update

from muster import __version__
from muster_server.db.models import NodeRow


def test_nodes_of_another_version_are_listed(agent, muster, database):
    for name in ("older", "same"):
        agent(name)

    def upgrade(name):
        with database.transaction() as session:
            session.execute(
                update(NodeRow).where(NodeRow.name == name).values(agent_version=__version__)
            )

    upgrade("same")
    said = muster("node", "list", "--outdated").output
    assert "older" in said
    assert "same" not in said
    upgrade("older")
    done = muster("node", "list", "--outdated")
    assert f"No agent has another version than the server's, {__version__}." in done.output
    assert "older" in muster("node", "list").output
