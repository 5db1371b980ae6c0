"""A script under a torch that has no flight recorder, as one of another build."""

import runpy
from pathlib import Path

import torch._C._distributed_c10d as c10d

for name in ("_dump_fr_trace", "_dump_nccl_trace"):
    if hasattr(c10d, name):
        delattr(c10d, name)
runpy.run_path(str(Path(__file__).with_name("ddp.py")), run_name="__main__")
