"""Slurm batch scripts as experiments."""
