"""Where the time went in traces of torch's profiler, by two definitions.

    python bench/traces.py FOLDER

Prints, for every trace in the folder: communication, computation, their intersection and exposed
communication over the whole file, in µs and as `muster trace summary` shows them; and the overlap as
HolisticTraceAnalysis defines it, over the kernels that the marked iterations launched, without the last
one, and from the first whole µs of each kernel to its last. The traces of the published figures are those of its repository; see README.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from pathlib import Path
from typing import Any

from muster.timeline.activities import Activity, classify
from muster.timeline.arithmetic import SpanBreakdown, breakdown, extent, step_number
from muster.timeline.summary import summarize


def of_whole_iterations(path: Path) -> SpanBreakdown | None:
    """Return the figures over the kernels launched from the start of the first marked iteration to the
    start of the last; None without two of them."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    starts = sorted(
        event["ts"]
        for event in events
        if event.get("cat") == "user_annotation" and step_number(event["name"]) is not None
    )
    if len(starts) < 2:
        return None
    launched = {
        event["args"].get("correlation")
        for event in events
        if event.get("cat") == "cuda_runtime" and starts[0] <= event["ts"] < starts[-1]
    }
    kernels = [
        found
        for event in events
        if event.get("args", {}).get("correlation") in launched and (found := _kernel(event))
    ]
    start, end = extent(kernels)
    return breakdown(kernels, start_ns=start, end_ns=end)


def _kernel(event: dict[str, Any]) -> Activity | None:
    kind = classify(event["name"], event["cat"]) if event.get("cat") == "kernel" else None
    start, end = math.ceil(event["ts"]), math.floor(event["ts"] + event["dur"])  # as it rounds them
    return kind and Activity(kind, event["name"], start * 1000, end * 1000, event["args"]["stream"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="Folder with traces, .json or .json.gz.")
    files = sorted(parser.parse_args().folder.glob("*.json*"))
    for rank in (one for file in files for one in summarize([(None, file)])["ranks"]):
        print(rank["file"])
        if rank["problem"]:
            print(f"  {rank['problem']}")
            continue
        whole = [rank[f"{name}_us"] for name in ("communication", "computation", "overlap")]
        share = rank["overlap_us"] / rank["communication_us"] if rank["communication_us"] else 0
        print(
            "  whole file: communication {:,.0f} µs, computation {:,.0f} µs, intersection {:,.0f} µs "
            "({:.2%}), exposed {:,.0f} µs".format(*whole, share, rank["exposed_us"])
        )
    for file in files:
        found = of_whole_iterations(file)
        if found and found.communication:
            print(
                f"{file.name}\n  whole iterations: overlap {found.overlap / found.communication:.2%}"
            )


if __name__ == "__main__":
    main()
