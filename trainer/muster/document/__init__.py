"""The experiment document, for server, agent and workers alike. Standard library alone.

`experiment.ExperimentConfig` is the tree of a resolved document: every field, default, bound and
sentence of the reference stands there once. `codec` takes it from JSON and back. Nothing is imported
here, so that a process pays for the sections it reads.
"""
