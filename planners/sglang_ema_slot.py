"""SGLang's adaptive slot: one list of candidate steps, moved through by an average of accepted draft tokens."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class SlotRules:
    """The numbers of a slot. `probes_zero` is the version whose candidates may hold 0: a slot that moved down does not
    move up in the same decision, and one at 0 leaves it at the next. Without it both loops run."""

    candidates: tuple[int, ...]  # ascending
    ema_alpha: float = 0.2
    update_interval: int = 5
    warmup_batches: int = 10
    up_hysteresis: float = 0.0
    down_hysteresis: float = -0.25
    ceiling_coeff: float = 0.0
    probes_zero: bool = True


class Slot:
    """A slot's steps (draft tokens) and what moves them. `num_steps` is the start, the middle candidate where it is
    none of them; the average starts at steps - 1."""

    def __init__(self, rules: SlotRules, num_steps: int) -> None:
        self.rules = rules
        candidates = rules.candidates
        self.steps = num_steps if num_steps in candidates else candidates[len(candidates) // 2]
        self.ema = float(self.steps - 1)
        self.num_batches = 0

    def update(self, accepted: float) -> None:
        """Learn from one verified batch: accepted draft tokens per request, bonus excluded, ignored at 0 steps."""
        rules = self.rules
        if self.steps > 0:
            self.ema = (1.0 - rules.ema_alpha) * self.ema + rules.ema_alpha * accepted
        self.num_batches += 1
        since_warmup = self.num_batches - rules.warmup_batches
        if since_warmup > 0 and since_warmup % rules.update_interval == 0:
            self.steps = self._target()

    def _target(self) -> int:
        candidates, at = self.rules.candidates, self.rules.candidates.index(self.steps)
        if self.steps == 0:
            probe = candidates[min(at + 1, len(candidates) - 1)]
            if probe > 0 and self.ema < 0:
                self.ema = float(probe - 1)
            return probe
        down = self._down(at)
        if self.rules.probes_zero and down < at:
            return candidates[self._under_ceiling(down)]
        moved = self._up(down)
        return candidates[self._under_ceiling(moved) if moved <= at else moved]

    def _down(self, at: int) -> int:
        while at > 0:
            below = self.rules.candidates[at - 1]
            threshold = (0.5 if below == 0 else below - 0.5) + self.rules.down_hysteresis
            if self.ema > threshold:
                break
            at -= 1
        return at

    def _up(self, at: int) -> int:
        while at < len(self.rules.candidates) - 1:
            if self.ema <= self.rules.candidates[at] - 0.5 + self.rules.up_hysteresis:
                break
            at += 1
        return at

    def _under_ceiling(self, at: int) -> int:
        """The ceiling caps a slot that does not rise; the lowest candidate may stay above it."""
        if self.rules.ceiling_coeff > 0:
            ceiling = max(1, ceil(self.ema * self.rules.ceiling_coeff))
            while at > 0 and self.rules.candidates[at] > ceiling:
                at -= 1
        return at
