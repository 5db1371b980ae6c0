"""Batch systems that tests submit to: Slurm, Ray and Kubernetes, real or made."""
