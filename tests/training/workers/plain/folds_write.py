"""Train folds one after another, each with a writer of its own in the folder of this second."""

from tensorboardX import SummaryWriter

for fold in range(3):
    with SummaryWriter("board/Nov29_02-10-57_host") as writer:
        for step in range(2):
            writer.add_scalar("loss", fold + step / 10, step)
        writer.add_scalar("accuracy", fold / 10, 0)
with SummaryWriter("board/Nov29_02-10-57_host") as goes_on:
    goes_on.add_scalar("loss", 7.0, 2)
