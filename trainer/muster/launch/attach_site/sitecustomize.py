"""Python imports this at its start where the agent has put this folder on PYTHONPATH: in the
workers of a user's script, so that its steps are measured and what it logs is captured; see
`muster.launch.attach`.

A folder of its own, because everything beside this file could be imported by the script.
"""

import importlib.machinery
import importlib.util
import os
import sys

# Not pathlib: importing it takes longer than all the rest of this.
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120


def _without_us(entries: list[str]) -> list[str]:
    return [entry for entry in entries if os.path.abspath(entry or ".") != _HERE]  # noqa: PTH100


def _run_the_next_one() -> None:
    """Run the sitecustomize of this Python that this file hides."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.path[:] = _without_us(sys.path)
_is_child = "MUSTER_ATTACH_CHILD" in os.environ  # started by a worker with a rank
_is_ranked = "LOCAL_RANK" in os.environ and not _is_child
_what = os.environ.get("MUSTER_ATTACH", "").split()
_, _, _sdk = os.environ.get("MUSTER_PYTHONPATH", "").partition(os.pathsep)
if _sdk and importlib.util.find_spec("muster") is None:
    sys.path.append(
        _sdk
    )  # the script has replaced PYTHONPATH, or runs in an environment of its own
if _is_ranked:  # a worker, and not the launcher, whose workers need the path
    os.environ.pop("MUSTER_ATTACH", None)
    os.environ.pop("MUSTER_PYTHONPATH", None)
    _rest = os.pathsep.join(_without_us(os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if _rest:
        os.environ["PYTHONPATH"] = _rest
    else:
        os.environ.pop("PYTHONPATH", None)
if not _is_child:
    try:
        from muster.launch import site_signals

        site_signals.install()
    except Exception as error:
        sys.stderr.write(
            f"muster: SIGTERM ends this process at once: {type(error).__name__}: {error}\n"
        )
# In a job that is started without ranks every process may be the one that trains.
if _is_ranked or _is_child or "MUSTER_ATTACH_UNRANKED" in os.environ:
    try:
        from muster.launch import attach, uncaught

        if not _is_child:
            uncaught.install()
        attach.install(_what)
        if _is_ranked:
            attach.pass_on(_what)
    except Exception as error:
        # The script's interpreter may be one in which nothing of ours works.
        sys.stderr.write(f"muster: nothing is measured: {type(error).__name__}: {error}\n")
_run_the_next_one()
