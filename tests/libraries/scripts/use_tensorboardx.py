"""tensorboardX, and the event file that it wrote."""

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter

with SummaryWriter("runs") as writer:
    for step in range(10):
        writer.add_scalar("loss/train", 1.0 / (step + 1), step)
events = EventAccumulator("runs", size_guidance={"scalars": 0})
events.Reload()
expected = {"loss/train": {str(e.step): e.value for e in events.Scalars("loss/train")}}
Path("expected.json").write_text(json.dumps(expected))
