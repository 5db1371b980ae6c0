"""Log with a library that knows nothing of Muster, in each of the ways it has."""

# As a library does that wants to know what is installed; it imports nothing.
import importlib.util
import sys

# As a library does that wants to know what is installed; it imports nothing.
importlib.util.find_spec("tensorboardX.writer")

import numpy as np  # noqa: E402
from tensorboardX import SummaryWriter  # noqa: E402

import muster  # noqa: E402

train = SummaryWriter("board/train")
held_out = SummaryWriter("board/held out")
for step in (0, 5, 10):
    train.add_scalar("loss", np.float32(1 / (step + 3)), step)
    held_out.add_scalar("loss", 2.0 / (step + 3), global_step=step)
    train.add_scalars("error", {"top1": 0.5, "top5": 0.25}, step)
    train.add_scalar("mine", 1.0, step)
train.add_scalar("loss", float("nan"), 15)
train.add_scalar("time/epoch", 2.5, 15)
train.add_text("notes", "hello", 1)
if "own" in sys.argv:
    muster.init()
    muster.log({"mine": 7.0}, step=20)
    train.add_scalar("mine", 3.0, 25)
train.close()
held_out.close()
