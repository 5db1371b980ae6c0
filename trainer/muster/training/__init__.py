"""The built-in trainer: `python -m muster.training` under torchrun, no code of one's own needed."""
