"""Plausible: verifies what is likely to be accepted, drafts a little deeper than what was accepted lately."""

import numpy as np

from lightspec_bench.core import Batch, BenchError, EngineConfig, Plan, Step
from lightspec_bench.fill import prefix_survival


class Plausible:
    """Verifies the pending draft tokens that the drafter believes accepted with a chance of `survival` or more.

    Drafts `headroom` tokens deeper than the average draft was accepted in the last ten steps or so. Source: made up.
    """

    confidence = "current"  # of the pending proposals, so a pipelined engine waits for them
    requires = frozenset({"confidence"})  # traces without it are skipped, with the reason
    uses_drafter = True

    def __init__(self, config: EngineConfig, survival: float = 0.3, headroom: int = 2) -> None:
        if not 0 <= survival <= 1:
            raise BenchError(f"plausible: survival is {survival}, expected 0 to 1")
        if headroom < 1:
            raise BenchError(f"plausible: headroom is {headroom}, expected 1 or more")
        self.survival, self.headroom, self.most = survival, headroom, config.max_draft_tokens
        self.accepted = float(self.most)  # try the deepest draft first

    def plan(self, batch: Batch) -> Plan:
        likely = prefix_survival(batch.confidence) >= self.survival  # (N, D); False past a proposal
        depth = min(round(self.accepted) + self.headroom, self.most)
        return Plan(depth, num_verify_tokens=np.minimum(likely.sum(axis=1), batch.num_draft_tokens))

    def observe(self, step: Step) -> None:
        drafted = step.num_draft_tokens > 0
        if drafted.any():  # not so in a step of newcomers, or of nobody
            self.accepted += 0.1 * (float(step.num_accepted_tokens[drafted].mean()) - self.accepted)
