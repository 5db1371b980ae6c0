"""Batch inference: a gang of workers lets a model predict many rows, each once.

`inputs` finds the rows and cuts them into shards, once per job; `rows` reads a shard; `predictor` calls
the model in a process of its own, which `computing` starts again when it dies; `parts` keeps results;
`worker` holds shards and commits them. What is granted to whom is decided by the control plane
(`muster_server.services.runtime.predictions`).

Results do not depend on who computes them: micro-batches are cut at fixed rows within a shard, and shards
at fixed rows of an input.
"""
