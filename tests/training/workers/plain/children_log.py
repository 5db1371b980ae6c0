"""A worker whose processes train and log."""

import multiprocessing
import sys


def train(fold: int) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(f"fold-{fold}") as writer:
        for step in range(3):
            writer.add_scalar("loss", fold + step / 4, step)
    if fold == 2:
        raise ValueError("the last fold fails, which nobody minds")


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for fold in range(3):
        process = context.Process(target=train, args=(fold,))
        process.start()
        process.join()
