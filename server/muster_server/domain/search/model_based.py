"""Points proposed by a model of what is known: TPE, GP and NSGA-II from optuna, CMA-ES from cmaes.

Nothing of a model is kept between two trials. It is built from the history each time, with a seed
of its own per trial, so that the same history gives the same point after any restart.

Trials without a result yet count: TPE places itself away from them (optuna's constant liar), and
CMA-ES draws each trial with a seed of its own from the distribution after the last full generation.
The Gaussian process is told the worst known score of them. NSGA-II breeds from whole generations and
needs none.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from cmaes import CMA
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from . import sampling
from .observations import Observations
from .sampling import SearchParameter
from .spec import SearchSpec

_STEP_SIZE = 0.3
"""CMA-ES: its first standard deviation, of a unit interval (Hansen 2016, The CMA Evolution Strategy)."""
_STARTUP = 10
"""Number of trials that TPE draws at random before it learns (Optuna's own)."""

GENERATION = 20
"""NSGA-II: trials of a generation. Optuna's own 50 would be most of a search of a hundred."""

optuna.logging.set_verbosity(optuna.logging.ERROR)


def propose(
    spec: SearchSpec, parameters: list[SearchParameter], observations: Observations, *, no: int
) -> dict[str, Any]:
    """Return trial `no`'s hyperparameters."""
    seed = int(sampling.uniform(spec.seed, no, "sampler") * 2**31)
    if spec.sampler == "cmaes":
        return _cmaes(spec, parameters, observations, no, seed)
    return _optuna(spec, parameters, observations, seed)


def _optuna(
    spec: SearchSpec, parameters: list[SearchParameter], observations: Observations, seed: int
) -> dict[str, Any]:
    num_objectives = max(len(spec.objectives), 1)
    spaces = distributions(parameters)
    known: list[FrozenTrial] = []
    sampler: optuna.samplers.BaseSampler
    if spec.sampler == "nsga2":
        sampler = optuna.samplers.NSGAIISampler(population_size=GENERATION, seed=seed)
        for i, (hparams, scores) in enumerate(observations.known):
            known.append(frozen(parameters, spaces, hparams, scores, generation=i // GENERATION))
    else:
        known = [
            frozen(parameters, spaces, hparams, scores) for hparams, scores in observations.known
        ]
        if spec.sampler == "gp":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                sampler = _GaussianProcess(n_startup_trials=_STARTUP, seed=seed)
        else:
            sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed)
        liar = None
        if spec.sampler == "gp" and known:
            columns = zip(*(scores for _, scores in observations.known), strict=True)
            liar = tuple(max(column) for column in columns)
        if spec.sampler != "gp" or known:
            known += [frozen(parameters, spaces, hparams, liar) for hparams in observations.pending]
    study = optuna.create_study(
        storage=Known(known), sampler=sampler, directions=["minimize"] * num_objectives
    )
    trial = study.ask()
    values: dict[tuple[str, ...], Any] = {}
    for parameter in _parents_first(parameters):
        if _is_met(parameter, values):
            values[parameter.path] = _suggest(trial, parameter)
    return sampling.active([p for p in parameters if p.path in values], values)


def cmaes_parameters(parameters: list[SearchParameter]) -> list[SearchParameter]:
    """Return the parameters that CMA-ES searches, numbers that are always present; others are drawn
    at random."""
    return [p for p in parameters if p.kind in ("int", "uniform", "log") and not p.when]


# ---------------------------------------------------------------- optuna's words


class _GaussianProcess(optuna.samplers.GPSampler):
    """Optuna's, without the look at each operation of torch that makes it use the processor whatever
    device is the default. Here that always is the processor, and the look takes a third of the time."""

    def sample_relative(
        self, study: Any, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        sample = getattr(self, "_sample_relative_impl", None)
        if sample is None:  # another version of Optuna
            return super().sample_relative(study, trial, search_space)
        trials = study.get_trials(deepcopy=False)
        known = [t for t in trials if t.state == TrialState.COMPLETE]
        running = [
            t
            for t in trials
            if t.state == TrialState.RUNNING and search_space.keys() <= t.params.keys()
        ]
        if not search_space or len(known) < _STARTUP:
            return {}
        found: dict[str, Any] = sample(study, known, running, search_space)
        return found


class Known(optuna.storages.InMemoryStorage):
    """A study whose trials so far are given. `Study.add_trials` copies each of them deeply, which
    takes longer than the model does."""

    def __init__(self, known: Sequence[FrozenTrial]) -> None:
        super().__init__()
        self._known = known
        # The trial asked for is number 0 here, and TPE ignores results with the same number.
        for number, trial in enumerate(known, start=1):
            trial.number = number

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        known = [trial for trial in self._known if states is None or trial.state in states]
        if deepcopy:
            known = copy.deepcopy(known)
        return [*known, *super().get_all_trials(study_id, deepcopy, states)]


def frozen(
    parameters: Sequence[SearchParameter],
    spaces: Mapping[str, BaseDistribution],
    hparams: dict[str, Any],
    scores: tuple[float, ...] | None,
    *,
    generation: int | None = None,
) -> FrozenTrial:
    """Return a point as optuna knows it: still running where `scores` is None."""
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for parameter in parameters:
        distribution = spaces[parameter.name]
        value = _to_model(parameter, hparams)
        # A point that a user enqueued may lie outside the space, which the model cannot represent.
        if value is not None and distribution._contains(distribution.to_internal_repr(value)):
            params[parameter.name] = value
            distributions[parameter.name] = distribution
    return optuna.trial.create_trial(
        state=TrialState.RUNNING if scores is None else TrialState.COMPLETE,
        values=scores,
        system_attrs={} if generation is None else {"NSGAIISampler:generation": generation},
        params=params,
        distributions=distributions,
    )


def completed(
    parameters: Sequence[SearchParameter], results: Sequence[tuple[Mapping[str, Any], float]]
) -> list[FrozenTrial]:
    """Return the (hyperparameters, value) results that have a value in the space of every
    parameter.

    They share one mapping of distributions, and nothing is checked twice: with ten thousand
    results, `create_trial` would take most of the time.
    """
    spaces = distributions(parameters)
    named = [(p.name, p, spaces[p.name]) for p in parameters]
    known: list[FrozenTrial] = []
    for hparams, value in results:
        params: dict[str, Any] = {}
        for name, parameter, space in named:
            found = _to_model(parameter, hparams)
            if found is None or not space._contains(space.to_internal_repr(found)):
                break
            params[name] = found
        else:
            known.append(
                FrozenTrial(
                    number=len(known),
                    trial_id=len(known),
                    state=TrialState.COMPLETE,
                    value=value,
                    params=params,
                    distributions=spaces,
                    datetime_start=None,
                    datetime_complete=None,
                    user_attrs={},
                    system_attrs={},
                    intermediate_values={},
                )
            )
    return known


def distributions(parameters: Sequence[SearchParameter]) -> dict[str, BaseDistribution]:
    """Return how optuna draws each parameter, by name."""
    return {parameter.name: _distribution(parameter) for parameter in parameters}


def _distribution(parameter: SearchParameter) -> BaseDistribution:
    if parameter.kind == "int":
        lo, hi = int(parameter.lo), int(parameter.hi)
        last = lo + (hi - lo) // parameter.step * parameter.step
        if parameter.is_log and parameter.step == 1:
            return IntDistribution(lo, hi, log=True)
        return IntDistribution(lo, last, step=parameter.step)
    if parameter.kind in ("uniform", "log"):
        return FloatDistribution(parameter.lo, parameter.hi, log=parameter.kind == "log")
    # By index: a choice may be a list or a mapping, which optuna cannot compare.
    return CategoricalDistribution(range(len(parameter.values)))


def _to_model(parameter: SearchParameter, hparams: Mapping[str, Any]) -> Any:
    at: Any = hparams
    for key in parameter.path:
        if not isinstance(at, dict) or key not in at:
            return None
        at = at[key]
    if parameter.kind in ("choice", "const"):
        return parameter.values.index(at) if at in parameter.values else None
    return at if isinstance(at, int | float) and not isinstance(at, bool) else None


def _suggest(trial: optuna.Trial, parameter: SearchParameter) -> Any:
    match _distribution(parameter):
        case IntDistribution() as space:
            return trial.suggest_int(
                parameter.name, space.low, space.high, step=space.step, log=space.log
            )
        case FloatDistribution() as space:
            return trial.suggest_float(parameter.name, space.low, space.high, log=space.log)
        case _:
            indices = range(len(parameter.values))
            return parameter.values[trial.suggest_categorical(parameter.name, indices)]


def _parents_first(parameters: list[SearchParameter]) -> list[SearchParameter]:
    """In such an order that whatever a `when` names comes before."""
    ordered: list[SearchParameter] = []
    done: set[tuple[str, ...]] = set()
    left = list(parameters)
    while left:
        ready = [p for p in left if all(other in done for other, _ in p.when)]
        ordered += ready
        done.update(p.path for p in ready)
        left = [p for p in left if p.path not in done]
    return ordered


def _is_met(parameter: SearchParameter, values: dict[tuple[str, ...], Any]) -> bool:
    return all(other in values and values[other] in ok for other, ok in parameter.when)


# ---------------------------------------------------------------- CMA-ES (Hansen 2016)


def _cmaes(
    spec: SearchSpec,
    parameters: list[SearchParameter],
    observations: Observations,
    no: int,
    seed: int,
) -> dict[str, Any]:
    searched = cmaes_parameters(parameters)
    strategy = CMA(
        mean=np.full(len(searched), 0.5),
        sigma=_STEP_SIZE,
        bounds=np.tile([0.0, 1.0], (len(searched), 1)),
        seed=seed,
    )
    generation: list[tuple[np.ndarray, float]] = []
    for hparams, (score,) in observations.known:
        place = _place(searched, hparams)
        if place is None:
            continue
        generation.append((place, score))
        if len(generation) == strategy.population_size:
            strategy.tell(generation)
            generation = []
    point = strategy.ask()
    quantiles = {p.path: min(float(u), 1 - 2**-53) for p, u in zip(searched, point, strict=True)}
    return sampling.at(
        parameters,
        [quantiles.get(p.path, sampling.uniform(spec.seed, no, *p.path)) for p in parameters],
    )


def _place(searched: list[SearchParameter], hparams: dict[str, Any]) -> np.ndarray | None:
    """Return a point's place in the unit cube; None for one that lies outside of the space."""
    place: list[float] = []
    for parameter in searched:
        value = _to_model(parameter, hparams)
        if value is None or not parameter.lo <= value <= parameter.hi:
            return None
        lo, hi = parameter.lo, parameter.hi
        if parameter.kind == "int":
            # The middle of the interval that is rounded to this value.
            count = (int(hi) - int(lo)) // parameter.step + 1
            hi, value = lo + count * parameter.step, value + parameter.step / 2
        if parameter.kind == "log" or parameter.is_log:
            lo, hi, value = math.log(lo), math.log(hi), math.log(value)
        place.append((value - lo) / (hi - lo))
    return np.array(place)
