"""Trials of a search: an Optuna study for each planner, its trials on growing fractions of the requests.

The journal keeps every trial, so an interrupted study goes on; a trial that was under way is asked for again, and finds
its finished cells.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from lightspec_bench.core import BenchError
from lightspec_bench.progress import Report
from lightspec_bench.search_cells import Cells
from lightspec_bench.search_space import Choice, Range, Space, default_options, grid, num_points, with_options

Method: TypeAlias = Literal["bayes", "grid", "random"]
JOURNAL = "search.journal"
HALVINGS = {1: 0.25, 2: 0.5, 4: 1.0}  # Optuna's resource -> fraction of the requests


@dataclass(frozen=True, slots=True)
class Trial:
    """One set of options: its score on each fraction of the requests it got to, and how it ended."""

    planner: str
    options: Mapping[str, Any]
    scores: Mapping[float, float]
    state: str  # complete, pruned, failed
    reason: str = ""

    @property
    def spec(self) -> str:
        return with_options(self.planner, self.options)


class Study:
    """One planner's trials, in an Optuna study of the folder's journal."""

    def __init__(self, planner: str, space: Mapping[str, Space], method: Method, num_trials: int, cells: Cells) -> None:
        optuna = load_optuna()
        self.planner, self.space, self.cells = planner, space, cells
        identity = json.dumps([planner, method, asdict(cells.suite), asdict(cells.digests), repr(space)], default=str)
        name = f"{planner} {hashlib.sha256(identity.encode()).hexdigest()[:10]}"
        storage = _journal(cells.folder / JOURNAL)
        halving = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
        self.study = optuna.create_study(
            storage=storage, study_name=name, load_if_exists=True, direction="maximize", pruner=halving
        )
        self.study.sampler = _sampler(method, len(self.study.get_trials(deepcopy=False)))
        self.distributions = {option: _distribution(each) for option, each in space.items()}
        whole = method == "grid" or num_points(space) <= num_trials  # then nothing needs to be drawn
        queue = grid(space) if whole else [default_options(planner, space)]
        self.wanted = len(queue) if whole else num_trials
        self._queue(queue)

    def run(self, jobs: int, report: Report | None) -> list[Trial]:
        size = max(1, math.ceil(jobs / self.cells.num_cells()))
        while (left := self.wanted - len(self._finished())) > 0:
            self._evaluate([self.study.ask(self.distributions) for _ in range(min(size, left))])
            if report:
                report(self.planner, len(self._finished()), self.wanted, self._said())
        return [self._trial(each) for each in self._finished()]

    def _queue(self, options: Sequence[Mapping[str, Any] | None]) -> None:
        """Ask first for these options where no trial has or had them, and again for those that were interrupted."""
        states = load_optuna().trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            self.study.tell(trial.number, state=states.FAIL)
            self.study.enqueue_trial(trial.params or trial.system_attrs.get("fixed_params", {}), {"again": True})
        trials = self.study.get_trials(deepcopy=False)
        known = {_text(trial.params or trial.system_attrs.get("fixed_params", {})) for trial in trials}
        for each in options:
            if each is not None and _text(each) not in known:
                self.study.enqueue_trial(dict(each))

    def _evaluate(self, trials: Sequence[Any]) -> None:
        states = load_optuna().trial.TrialState
        alive = list(trials)
        for resource, fraction in HALVINGS.items():
            specs = {trial.number: with_options(self.planner, self._options(trial)) for trial in alive}
            self.cells.run([self.planner, *specs.values()], fraction)
            still = []
            for trial in alive:
                try:
                    score = self.cells.score(specs[trial.number], self.planner, fraction)
                except BenchError as error:
                    trial.set_user_attr("reason", str(error))
                    self.study.tell(trial, state=states.FAIL)
                    continue
                trial.report(score, resource)
                if fraction == 1.0:
                    self.study.tell(trial, score)
                elif trial.should_prune():
                    self.study.tell(trial, state=states.PRUNED)
                else:
                    still.append(trial)
            alive = still

    def _finished(self) -> list[Any]:
        """Trials that ended, those that only an interrupt ended left out."""
        states = load_optuna().trial.TrialState
        trials = self.study.get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
        return [trial for trial in ended if trial.state != states.FAIL or "reason" in trial.user_attrs]

    def _trial(self, trial: Any) -> Trial:
        scores = {HALVINGS[resource]: score for resource, score in trial.intermediate_values.items()}
        state = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}[trial.state.name]
        return Trial(self.planner, self._options(trial), scores, state, trial.user_attrs.get("reason", ""))

    def _options(self, trial: Any) -> dict[str, Any]:
        spaces = ((option, value, self.space[option]) for option, value in trial.params.items())
        return {o: each.rounded(value) if isinstance(each, Range) else value for o, value, each in spaces}

    def _said(self) -> str:
        scores = [trial.scores[1.0] for trial in map(self._trial, self._finished()) if trial.state == "complete"]
        return f"best {max(scores):.3f} x default" if scores else ""


def _text(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)


def load_optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise BenchError("--search needs the package optuna: pip install 'lightspec-bench[search]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(space: Space) -> Any:
    from optuna import distributions

    if isinstance(space, Choice):
        return distributions.CategoricalDistribution(space.values)
    if space.is_whole:
        return distributions.IntDistribution(int(space.low), int(space.high), space.log, int(space.step or 1))
    return distributions.FloatDistribution(space.low, space.high, space.log, space.step)


def _sampler(method: Method, num_trials: int) -> Any:
    """Seeded by the trials that there are: with the same seed a resumed study would draw again what it has."""
    from optuna import samplers

    if method != "bayes":  # every point of a grid is in the queue
        return samplers.RandomSampler(seed=num_trials)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls these two experimental
        return samplers.TPESampler(seed=num_trials, multivariate=True, constant_liar=True)


def _journal(path: Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if path.exists():  # a line that a killed run did not finish
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
    return JournalStorage(JournalFileBackend(str(path), lock_obj=cast("Any", _Unlocked())))


class _Unlocked:
    """No lock: the folder is held by one run, and a lock of Optuna's would outlive one that is killed."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass
