"""How the workers of a training share the model and the work: one class per way.

`base.Strategy` is what the loop talks to. `rules` is pure and says what can be combined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.document.strategy import StrategySection
from muster.document.strategy_rules import axes

if TYPE_CHECKING:
    from muster.training.strategies.base import RankPosition, Strategy, Workload


def create(options: StrategySection, place: RankPosition, workload: Workload) -> Strategy:
    """Return the strategy of one training. A single worker shares with nobody: whatever the kind,
    it trains alone, with the same result.

    The classes are imported here: `rules` must be usable without torch.
    """
    if place.world_size == 1:
        from muster.training.strategies.single import Single

        return Single(options, place, workload)
    if options.kind == "zero1":
        from muster.training.strategies.zero import ZeroOne

        return ZeroOne(options, place, workload)
    if options.kind == "local_sgd":
        from muster.training.strategies.local_sgd import LocalSGD

        return LocalSGD(options, place, workload)
    if options.kind == "diloco":
        from muster.training.strategies.local_sgd import DiLoCo

        return DiLoCo(options, place, workload)
    if options.kind == "ps":
        from muster.training.strategies.parameter_server import ParameterServer

        return ParameterServer(options, place, workload)
    sizes = axes(options, place.world_size)
    if sizes["pp"] > 1 and options.schedule == "async":
        from muster.training.strategies.async_pipeline import AsyncPipeline

        return AsyncPipeline(options, place, workload)
    if sizes["pp"] > 1:
        from muster.training.strategies.pipeline import Pipeline

        return Pipeline(options, place, workload)
    if sizes["tp"] > 1:
        from muster.training.strategies.tensor import TensorParallel

        return TensorParallel(options, place, workload)
    if options.kind in ("fsdp", "hsdp"):
        from muster.training.strategies.fully_sharded import FullySharded

        return FullySharded(options, place, workload)
    from muster.training.strategies.data_parallel import DataParallel

    return DataParallel(options, place, workload)
