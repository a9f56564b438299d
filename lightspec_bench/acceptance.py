"""Acceptance as sources count it: counts that may be unknown, and the formulas of acceptance, each once.

A quotient whose denominator is zero is NaN (undefined); one that needs a count nobody told is None (unknown). Neither
is ever replaced by 0 or 1. `reports.metrics` applies the same formulas to the sums of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

PerPos = tuple[int, ...]
_SUMS = (
    "num_request_steps", "num_spec_steps", "num_draft_tokens", "num_verify_tokens", "num_accepted_tokens",
    "num_spec_tokens", "num_matched_tokens",
)  # fmt: skip


def ratio(numerator: float, denominator: float) -> float:
    """Quotient, NaN where the denominator is zero."""
    return float(numerator) / float(denominator) if denominator else float("nan")


def mean_acceptance_length(num_accepted_tokens: float, num_spec_steps: float) -> float:
    """1 + accepted / spec steps (vLLM). NaN without a spec step: skipped drafts are not drafts."""
    return 1.0 + ratio(num_accepted_tokens, num_spec_steps)


def mean_tokens_per_step(num_accepted_tokens: float, num_steps: float) -> float:
    """Tokens emitted per request-step, the bonus token included."""
    return ratio(num_accepted_tokens + num_steps, num_steps)


def target_efficiency(num_accepted_tokens: float, num_verify_tokens: float, num_steps: float) -> float:
    """Emitted tokens / target rows, bonus token and target row both counted (DSpark paper, footnote 3)."""
    return ratio(num_accepted_tokens + num_steps, num_verify_tokens + num_steps)


def verify_acceptance_rate(num_accepted_tokens: float, num_verify_tokens: float) -> float:
    """Accepted / verified draft tokens."""
    return ratio(num_accepted_tokens, num_verify_tokens)


def draft_acceptance_rate(num_accepted_tokens: float, num_draft_tokens: float) -> float:
    """Accepted / drafted tokens, those never verified included."""
    return ratio(num_accepted_tokens, num_draft_tokens)


def matched_token_rate(num_matched_tokens: float, num_draft_tokens: float) -> float:
    """Draft tokens the target agreed with anywhere in a draft / drafted (vLLM V0's "draft acceptance rate")."""
    return ratio(num_matched_tokens, num_draft_tokens)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over a request, a window or an engine. None: the source does not tell.

    `num_spec_steps` are request-steps that verified a draft, `num_request_steps` those without one as well.
    `spec_steps_bounds` are the least and the most spec steps that fit what was printed, where no single number does.
    `num_spec_tokens` are tokens that spec steps emitted, for a source that says so without saying how many were
    accepted; `num_matched_tokens` count agreement behind a rejection too. Per position k = 1, 2, ...:
    `num_survived_per_pos` spec steps that accepted at least k, `num_at_risk_per_pos` those of them that verified k
    with all before it accepted.
    """

    num_request_steps: int | None = None
    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    num_verify_tokens: int | None = None
    num_accepted_tokens: int | None = None
    num_spec_tokens: int | None = None
    num_matched_tokens: int | None = None
    num_survived_per_pos: PerPos | None = None
    num_at_risk_per_pos: PerPos | None = None
    spec_steps_bounds: tuple[int, int] | None = None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The least and the most spec steps: the same number twice where it is known."""
        steps = self.num_spec_steps
        return self.spec_steps_bounds if steps is None else (steps, steps)


def from_steps(drafted: Sequence[int], accepted: Sequence[int]) -> Counts:
    """Counts of one request's spec steps, each with the draft tokens it verified and accepted."""
    steps = [(d, a) for d, a in zip(drafted, accepted, strict=True) if d > 0]
    deepest = max((d for d, _ in steps), default=0)
    return Counts(
        num_spec_steps=len(steps),
        num_draft_tokens=sum(d for d, _ in steps),
        num_verify_tokens=sum(d for d, _ in steps),
        num_accepted_tokens=sum(a for _, a in steps),
        num_survived_per_pos=tuple(sum(a >= k for _, a in steps) for k in range(1, deepest + 1)),
        num_at_risk_per_pos=tuple(sum(d >= k and a >= k - 1 for d, a in steps) for k in range(1, deepest + 1)),
    )


def pooled(parts: Iterable[Counts]) -> Counts:
    """Sums; a count that any part does not tell is unknown in the sum."""
    parts = list(parts)
    sums = {name: _sum([getattr(part, name) for part in parts]) for name in _SUMS}
    return Counts(
        **sums,
        num_survived_per_pos=_sum_per_pos([part.num_survived_per_pos for part in parts]),
        num_at_risk_per_pos=_sum_per_pos([part.num_at_risk_per_pos for part in parts]),
        spec_steps_bounds=_sum_bounds(parts) if sums["num_spec_steps"] is None else None,
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _sum_per_pos(values: Sequence[PerPos | None]) -> PerPos | None:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    deepest = max(map(len, known))
    return tuple(sum(value[k] for value in known if k < len(value)) for k in range(deepest))


def _sum_bounds(parts: Sequence[Counts]) -> tuple[int, int] | None:
    bounds = [part.bounds for part in parts]
    known = [bound for bound in bounds if bound is not None]
    if not known or len(known) < len(bounds):
        return None
    return sum(low for low, _ in known), sum(high for _, high in known)


# name -> formula, and the counts it takes
FORMULAS: dict[str, tuple[Callable[..., float], tuple[str, ...]]] = {
    "mean_acceptance_length": (mean_acceptance_length, ("num_accepted_tokens", "num_spec_steps")),
    "mean_tokens_per_step": (mean_tokens_per_step, ("num_accepted_tokens", "num_request_steps")),
    "mean_tokens_per_spec_step": (ratio, ("num_spec_tokens", "num_spec_steps")),
    "target_efficiency": (target_efficiency, ("num_accepted_tokens", "num_verify_tokens", "num_request_steps")),
    "target_efficiency_of_spec_steps": (
        lambda emitted, verified, steps: ratio(emitted, verified + steps),
        ("num_spec_tokens", "num_verify_tokens", "num_spec_steps"),
    ),
    "verify_acceptance_rate": (verify_acceptance_rate, ("num_accepted_tokens", "num_verify_tokens")),
    "draft_acceptance_rate": (draft_acceptance_rate, ("num_accepted_tokens", "num_draft_tokens")),
    "matched_token_rate": (matched_token_rate, ("num_matched_tokens", "num_draft_tokens")),
}


def rates(counts: Counts) -> dict[str, float | None]:
    """Every rate by name: its value, NaN where it is undefined, None where a count it needs is unknown."""
    found = {name: _value(counts, formula, needs) for name, (formula, needs) in FORMULAS.items()}
    bounds = length_bounds(counts)
    if bounds is not None and bounds[0] == bounds[1]:
        found["mean_acceptance_length"] = bounds[0]
    return found


def missing(counts: Counts, name: str) -> tuple[str, ...]:
    """The counts that the rate of that name needs and the source does not tell."""
    return tuple(need for need in FORMULAS[name][1] if _count(counts, need) is None)


def _value(counts: Counts, formula: Callable[..., float], needs: tuple[str, ...]) -> float | None:
    values = [_count(counts, need) for need in needs]
    return None if None in values else formula(*values)


def _count(counts: Counts, name: str) -> int | None:
    """A count by name; tokens of spec steps are accepted + spec steps where the source counts both."""
    value: int | None = getattr(counts, name)
    if name == "num_spec_tokens" and value is None:
        accepted, steps = counts.num_accepted_tokens, counts.num_spec_steps
        return None if accepted is None or steps is None else accepted + steps
    return value


def length_bounds(counts: Counts) -> tuple[float, float] | None:
    """The least and the greatest mean acceptance length that the counts allow, None where they say nothing.

    Where nothing was accepted it is 1, however many drafts there were.
    """
    if counts.num_accepted_tokens == 0 and (counts.num_draft_tokens or counts.num_verify_tokens):
        return 1.0, 1.0
    if counts.num_accepted_tokens is None or counts.bounds is None:
        return None
    fewest, most = counts.bounds
    accepted = counts.num_accepted_tokens
    return mean_acceptance_length(accepted, most), mean_acceptance_length(accepted, fewest)


def survival_per_pos(counts: Counts) -> tuple[float, ...] | None:
    """Prefix survival: spec steps that accepted at least k / spec steps, k = 1, 2, ..."""
    if counts.num_survived_per_pos is None or counts.num_spec_steps is None:
        return None
    return tuple(ratio(count, counts.num_spec_steps) for count in counts.num_survived_per_pos)


def conditional_per_pos(counts: Counts) -> tuple[float, ...] | None:
    """Accepted k / verified k with all before it accepted; None where a draft may have been shorter than k."""
    survived, at_risk = counts.num_survived_per_pos, counts.num_at_risk_per_pos or full_drafts_at_risk(counts)
    if survived is None or at_risk is None:
        return None
    return tuple(ratio(count, risk) for count, risk in zip(survived, at_risk, strict=True))


def full_drafts_at_risk(counts: Counts) -> PerPos | None:
    """Spec steps at risk per position, where every draft was of full length: verified = spec steps x positions."""
    survived, steps = counts.num_survived_per_pos, counts.num_spec_steps
    if not survived or steps is None or counts.num_verify_tokens != steps * len(survived):
        return None
    return (steps, *survived[:-1])
