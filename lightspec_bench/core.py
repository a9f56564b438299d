"""The nouns: records that every part passes around, and the three protocols that parts implement.

Shapes: N running requests in a step, D = `max_draft_tokens`, R requests and P output positions in a trace.
Times are seconds (`*_s`), rates fractions; a "target token" is one row of the target's forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lightspec_bench.early_exit import EarlyExit as EarlyExit
from lightspec_bench.errors import BenchError as BenchError, GateError as GateError, PlanError as PlanError

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
Confidence: TypeAlias = npt.NDArray[np.float32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]
Number: TypeAlias = "int | float | IntArray | FloatArray"

ConfidenceAge: TypeAlias = Literal["none", "lagged", "current"]
DrafterKind: TypeAlias = Literal["autoregressive", "autoregressive_no_attention", "parallel", "ngram"]
DRAFTER_KINDS: tuple[DrafterKind, ...] = get_args(DrafterKind)


@dataclass(frozen=True, slots=True)
class Drafter:
    """What planners and the price of drafting need to know of a drafter.

    `kind` fixes the shape of its cost (`drafting.draft_s`); `max_draft_tokens` is D, and a parallel drafter's block.
    """

    kind: DrafterKind
    max_draft_tokens: int

    def __post_init__(self) -> None:
        if self.kind not in DRAFTER_KINDS:
            raise BenchError(f"drafter kind is {self.kind!r}, expected one of {', '.join(DRAFTER_KINDS)}")
        if self.max_draft_tokens < 1:
            raise BenchError(f"max_draft_tokens is {self.max_draft_tokens}, expected at least 1")


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """A trace's metadata, kept in the Parquet file's key-value block.

    `indexing`: "position" (every output position was recorded; replay is exact) or "step" (only the positions
    an engine visited; replay is approximate and censored). `origin`: "recorded" from real models or "modelled".
    """

    name: str
    target: str
    drafter: str
    drafter_kind: DrafterKind
    max_draft_tokens: int
    dataset: str
    sampling: str
    indexing: Literal["position", "step"]
    origin: Literal["recorded", "modelled"]
    made_by: str
    licence: str


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests as recorded. Positions lie one after another: request r owns `offsets[r]:offsets[r + 1]`.

    Entry p of a request describes the moment when p of its tokens are out; entry 0 is a placeholder, because the first
    token comes from prefill. A request at p that verifies v draft tokens gets `min(v, num_accepted[p])` and moves to
    `p + accepted + 1`; `num_accepted[p] <= num_output_tokens - 1 - p`, so that the bonus token never passes the end.
    """

    info: TraceInfo
    request_id: npt.NDArray[np.str_]  # (R,)
    category: npt.NDArray[np.str_]  # (R,)
    arrival_s: FloatArray  # (R,) zeros where no arrival was recorded
    num_prompt_tokens: IntArray  # (R,)
    num_output_tokens: IntArray  # (R,) at least 1
    repeats_from: IntArray  # (R,) second round of a loop to the end; num_output_tokens if there is none
    offsets: IntArray  # (R + 1,)
    num_accepted: npt.NDArray[np.int16]  # (P,)
    num_draft_tokens: npt.NDArray[np.int16] | None = None  # (P,) what the drafter proposes there; None: always D
    confidence: Confidence | None = None  # (P, D) top probability of each draft token, given the ones before
    entropy: Confidence | None = None  # (P, D) nats

    @property
    def num_requests(self) -> int:
        return len(self.num_output_tokens)

    @property
    def num_positions(self) -> int:
        return int(self.offsets[-1])

    @property
    def max_draft_tokens(self) -> int:
        return self.info.max_draft_tokens


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a planner is told when it is built: the engine it plans for, never the workload."""

    drafter: Drafter
    latency: LatencyModel
    max_num_seqs: int
    lag_steps: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.lag_steps not in (0, 1):
            raise BenchError(f"lag_steps is {self.lag_steps}, expected 0 (synchronous) or 1 (overlapped)")

    @property
    def max_draft_tokens(self) -> int:
        return self.drafter.max_draft_tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """What a planner may look at before a step: never an outcome of that step or a later one. Its arrays are the
    engine's and may be written over later: copy what you keep.

    Under `lag_steps` 1 and a planner that does not ask for `current` confidences, `confidence` and `entropy` are
    those of the proposals verified one step earlier (NaN for requests that had none) and `num_draft_tokens` is the
    depth that was planned, which the drafter may not have reached. Otherwise all are of the pending proposals.
    """

    step: int
    now_s: float
    request_id: IntArray  # (N,) row in the trace, plus R for every repetition
    num_draft_tokens: IntArray  # (N,) pending draft tokens, 0 for a request that has no proposal
    num_output_tokens: IntArray  # (N,) tokens out so far
    num_context_tokens: IntArray  # (N,) prompt and output
    confidence: Confidence | None  # (N, D), NaN past the proposal
    entropy: Confidence | None  # (N, D)
    num_prefill_tokens: int = 0  # prompt tokens that share this step
    num_waiting: int = 0  # requests not admitted yet

    @property
    def num_requests(self) -> int:
        return len(self.request_id)


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision for a step: verify either a budget `num_target_tokens` in target rows (`fill` chooses), or
    `num_verify_tokens` per request, shape (N,); then draft `num_draft_tokens` per request, one depth or (N,)."""

    num_draft_tokens: int | IntArray
    num_target_tokens: int | None = None
    num_verify_tokens: IntArray | None = None
    early_exit: EarlyExit | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one decode step. Arrays are (N,) in the order of `request_id`.

    `emitted = accepted + 1` for every request. `num_draft_tokens` were pending; `confidence` and `entropy` (N, D) are
    theirs, None for a planner that reads none. `exposed_planner_s` is the part of `planner_s` that lengthened the step.
    """

    index: int
    plan: Plan
    request_id: IntArray
    num_draft_tokens: IntArray
    num_verify_tokens: IntArray
    num_accepted_tokens: IntArray
    confidence: Confidence | None
    entropy: Confidence | None
    num_context_tokens: int  # summed over the batch
    num_prefill_tokens: int
    verify_s: float
    draft_s: float
    host_s: float
    prefill_s: float
    planner_s: float
    exposed_planner_s: float

    @property
    def num_requests(self) -> int:
        return len(self.request_id)

    @property
    def duration_s(self) -> float:
        return self.verify_s + self.draft_s + self.host_s + self.prefill_s + self.exposed_planner_s


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a run's measured window; every rate is computed from these (`reports.metrics`).

    `outcomes[v, a]`, shape (D + 1, D + 1), counts request-steps that verified v draft tokens and accepted a.
    `num_output_tokens` counts every token that came out, those of prefill included.
    """

    num_steps: int
    num_draft_tokens: int
    num_output_tokens: int
    num_prefill_tokens: int
    elapsed_s: float
    verify_s: float
    draft_s: float
    host_s: float
    prefill_s: float
    planner_s: float
    exposed_planner_s: float
    outcomes: IntArray


STEP_COLUMNS = (
    "step", "start_s", "duration_s", "num_requests", "num_target_tokens", "num_draft_tokens", "num_verify_tokens",
    "num_accepted_tokens", "planned_depth", "draft_depth", "num_context_tokens", "num_prefill_tokens", "verify_s",
    "draft_s", "host_s", "prefill_s", "planner_s", "exposed_planner_s",
)  # fmt: skip
REQUEST_COLUMNS = (
    "request_id", "arrival_s", "start_s", "first_token_s", "finish_s", "num_prompt_tokens", "num_output_tokens",
    "num_steps", "num_spec_steps", "num_draft_tokens", "num_verify_tokens", "num_accepted_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: the one thing that is stored and compared.

    `settings` and `environment` are JSON values. `steps` holds `STEP_COLUMNS`, one entry per step (sums over the
    batch; `planned_depth` is the deepest draft the plan asked for, `draft_depth` the deepest that was drafted), or
    None when step records are off; `requests` holds `REQUEST_COLUMNS`, one entry per finished request. `origin` says
    where the numbers come from: "measured", "simulated from a recorded trace", "simulated from a modelled trace",
    with "approximate" for step-indexed ones.
    """

    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    origin: str
    totals: Totals
    requests: Columns
    steps: Columns | None


class LatencyModel(Protocol):
    """Seconds for a batch shape; every method broadcasts over arrays and returns float64 (0-d for scalars).

    `origin`: "measured", "modelled" or "quoted"; `source` says from what. `graph_sizes` are the captured row
    counts, ascending, empty where nothing is captured.
    """

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def graph_sizes(self) -> IntArray: ...

    def verify_s(self, num_target_tokens: Number, num_requests: Number, num_context_tokens: Number) -> FloatArray:
        """One target forward over that many rows, sampling included."""

    def draft_pass_s(self, num_rows: Number, num_context_tokens: Number) -> FloatArray:
        """One drafter forward over that many rows."""

    def host_s(self, num_requests: Number, speculating: bool) -> FloatArray:
        """Host time of a step, with or without a drafter loaded."""


class Planner(Protocol):
    """A policy. Built as `Class(config: EngineConfig, **options)`; an instance serves one run.

    `confidence` is the age of the confidences it reads, `requires` what a trace must have ("confidence", "entropy",
    or a signal that no trace holds, such as "kl_divergence"), `uses_drafter` False only for a planner that runs the
    engine without a drafter. An instance may say more exactly what its class says.
    """

    confidence: ClassVar[ConfidenceAge]
    requires: ClassVar[frozenset[str]]
    uses_drafter: ClassVar[bool]

    def plan(self, batch: Batch) -> Plan: ...
    def observe(self, step: Step) -> None: ...


class Runner(Protocol):
    """Carries a planner through a workload on some clock."""

    def run(self, planner: Planner) -> Run: ...
