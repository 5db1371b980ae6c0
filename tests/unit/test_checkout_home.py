"""Where the data of a checkout lies: jobs must not find the checkout above their work folders."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "home"


def home_of(checkout: Path, **environment: str) -> Path:
    (checkout / "scripts").mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPT, checkout / "scripts" / "home")
    path = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [checkout / "scripts" / "home"],
        env=path | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.removesuffix("\n"))


def test_the_data_of_a_fresh_checkout_lies_outside_of_it(tmp_path: Path) -> None:
    one, two = tmp_path / "a b" / "muster", tmp_path / "c" / "muster"
    home = home_of(one, HOME=str(tmp_path / "ann"))
    assert home.parent == tmp_path / "ann" / ".muster" / "checkouts"
    assert home_of(two, HOME=str(tmp_path / "ann")) != home, "each checkout has its own"
    assert home_of(one, HOME="/x", MUSTER_HOME="/data") == Path("/data")
    assert home_of(one) == one / ".muster"


def test_data_that_is_in_the_checkout_stays_in_use(tmp_path: Path) -> None:
    (tmp_path / ".muster").mkdir()
    assert home_of(tmp_path, HOME="/home/ann") == tmp_path / ".muster"
