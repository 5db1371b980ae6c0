"""Write versions/0001_initial.py anew from the models. Only while no version has been released."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from alembic import command

from muster_server.db.engine import Database
from muster_server.db.migrations import alembic_config, migrations_path


def main() -> None:
    target = migrations_path() / "versions" / "0001_initial.py"
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/empty.db")
        with database.engine.connect() as connection:
            config = alembic_config(connection)
            config.attributes["initial"] = True
            command.revision(config, "The first tables.", autogenerate=True, rev_id="0001")
        database.dispose()
    (made,) = target.parent.glob("0001_*.py")
    lines = made.read_text().splitlines(keepends=True)
    made.unlink()
    target.write_text("".join(line for line in lines if not line.strip().startswith("# ###")))
    ruff = str(Path(sys.executable).with_name("ruff"))
    subprocess.run([ruff, "check", "--fix", "-q", str(target)], check=False)
    subprocess.run([ruff, "format", "-q", str(target)], check=True)


if __name__ == "__main__":
    main()
