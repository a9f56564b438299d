"""Training of a draft head on a corpus of the target's hidden states: resumable, the same for the same seed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BenchError, IntArray
from lightspec_bench.runners.torch_features import Corpus
from lightspec_bench.runners.torch_head_kinds import EagleHead, ParallelHead
from lightspec_bench.runners.torch_heads import rotary_table
from lightspec_bench.runners.torch_unroll import Texts, step_loss, teacher, unrolled

STEP_DECAY = 0.8
CHECKPOINT_EVERY_S = 60.0
WINDOW_BATCHES = 8


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """How to train. `first_steps` are unrolled for the first third of the iterations, `steps` after that."""

    epochs: float = 8.0
    batch_texts: int = 4
    steps: int = 4
    first_steps: int = 2
    learning_rate: float = 1.5e-3
    warmup_share: float = 0.02
    weight_decay: float = 0.01
    max_text_tokens: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_texts", "steps", "first_steps", "max_text_tokens"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.epochs <= 0 or self.learning_rate <= 0:
            raise BenchError(f"epochs {self.epochs} and learning rate {self.learning_rate} must be above 0")


@dataclass(frozen=True, slots=True)
class TargetParts:
    """What training needs of the target: embeddings (V, H), output matrix (V, H) and the final norm."""

    embedding: Tensor
    output: Tensor
    final_norm: Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where training stands. `accuracy`: share of training entries whose first draft token was right, of late."""

    iteration: int
    num_iterations: int
    loss: float
    accuracy: float
    rows_per_s: float


@dataclass(slots=True)
class Trainer:
    """A head in training, with all that it takes to go on after an interruption."""

    head: EagleHead | ParallelHead
    parts: TargetParts
    corpus: Corpus
    texts: IntArray
    settings: TrainSettings
    checkpoint: Path
    iteration: int = 0
    seconds: float = 0.0
    num_rows_seen: int = 0

    def run(self, report: Callable[[Progress], None]) -> None:
        """Train to the end, from the checkpoint if there is one; an interruption leaves a checkpoint behind."""
        optimizer = torch.optim.AdamW(
            self.head.parameters(), lr=self.settings.learning_rate, weight_decay=self.settings.weight_decay,
            betas=(0.9, 0.95), fused=True,
        )  # fmt: skip
        self._resume(optimizer)
        scene = Scene.of(self.head, self.parts, self.settings)
        began = saved = time.monotonic()
        base = self.seconds
        self.head.train()
        try:
            for batch in self._batches():
                loss, accuracy, rows = self._step(batch, optimizer, scene)
                self.iteration += 1
                now = time.monotonic()
                self.seconds = base + now - began
                report(Progress(self.iteration, self.num_iterations, loss, accuracy, rows))
                if now - saved > CHECKPOINT_EVERY_S:
                    self._save(optimizer)
                    saved = now
        finally:
            self._save(optimizer)
            self.head.eval()

    @property
    def num_iterations(self) -> int:
        return max(1, round(self.settings.epochs * len(self.texts) / self.settings.batch_texts))

    def _batches(self) -> Iterator[IntArray]:
        """Texts of the iterations still to come; an epoch's order depends on the seed and its number alone."""
        size, number = self.settings.batch_texts, len(self.texts)
        for iteration in range(self.iteration, self.num_iterations):
            wanted = np.arange(iteration * size, (iteration + 1) * size)
            orders = {epoch: self._order(epoch) for epoch in set((wanted // number).tolist())}
            yield np.array([orders[place // number][place % number] for place in wanted.tolist()])

    def _order(self, epoch: int) -> IntArray:
        """A shuffle in which a few neighbouring batches are sorted by length: padding is work for nothing."""
        order = np.random.default_rng((self.settings.seed, epoch)).permutation(self.texts)
        window = np.arange(len(order)) // (WINDOW_BATCHES * self.settings.batch_texts)
        return order[np.lexsort((np.diff(self.corpus.offsets)[order], window))]

    def _step(self, batch: IntArray, optimizer: Any, scene: Scene) -> tuple[float, float, float]:
        began = time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = self._learning_rate()
        steps = self.settings.first_steps if self.iteration < self.num_iterations / 3 else self.settings.steps
        loss, rights, counts = scene.losses(self.head, self.corpus, batch, steps)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        optimizer.step()
        self.num_rows_seen += sum(counts)
        return float(loss.detach()), rights[0] / max(counts[0], 1), sum(counts) / (time.monotonic() - began)

    def _learning_rate(self) -> float:
        """Linear warm-up, then half a cosine down to a twentieth."""
        done = self.iteration / self.num_iterations
        warm = min(1.0, (done + 1 / self.num_iterations) / self.settings.warmup_share)
        return self.settings.learning_rate * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))

    def _save(self, optimizer: Any) -> None:
        state = {
            "head": self.head.state_dict(), "optimizer": optimizer.state_dict(), "iteration": self.iteration,
            "seconds": self.seconds, "num_rows_seen": self.num_rows_seen, "num_iterations": self.num_iterations,
        }  # fmt: skip
        part = self.checkpoint.with_suffix(".part")
        torch.save(state, part)
        os.replace(part, self.checkpoint)

    def _resume(self, optimizer: Any) -> None:
        if not self.checkpoint.is_file():
            return
        state = torch.load(self.checkpoint, weights_only=True)
        if state["num_iterations"] != self.num_iterations:
            raise BenchError(
                f"{self.checkpoint}: made for {state['num_iterations']} iterations, this run has "
                f"{self.num_iterations}: give the same settings again or another folder"
            )
        self.head.load_state_dict(state["head"])
        optimizer.load_state_dict(state["optimizer"])
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.num_rows_seen = state["num_rows_seen"]


@dataclass(frozen=True, slots=True)
class Scene:
    """The target's side of training, fixed for a head: its output rows, embeddings and rotary table."""

    parts: TargetParts
    rows: Tensor
    place_of: Tensor
    rotary: Tensor
    max_text_tokens: int

    @classmethod
    def of(cls, head: EagleHead | ParallelHead, parts: TargetParts, settings: TrainSettings) -> Scene:
        ids: Tensor = head.draft_token_ids  # type: ignore[assignment]
        place_of = torch.full((len(parts.output),), -1, dtype=torch.int64, device=ids.device)
        place_of[ids] = torch.arange(len(ids), device=ids.device)
        table = rotary_table(head.settings, settings.max_text_tokens + settings.steps + 1).to(ids.device)
        return cls(parts, parts.output[ids], place_of, table, settings.max_text_tokens)

    def losses(
        self, head: EagleHead | ParallelHead, corpus: Corpus, batch: IntArray, steps: int
    ) -> tuple[Tensor, list[int], list[int]]:
        """Weighted loss of a batch of texts; per step, entries whose draft was right so far, and entries counted."""
        with torch.autocast(self.rows.device.type, dtype=torch.bfloat16):
            with torch.no_grad():
                texts = self.texts(corpus, batch)
                wanted = teacher(self.parts.final_norm(texts.taps[:, :, -1]), self.rows, texts.best, self.place_of)
            total, weight = torch.zeros((), device=self.rows.device), 0.0
            rights, counts, so_far = [], [], torch.ones_like(texts.learn)
            for step, (output, embedding) in enumerate(unrolled(head, texts, self.rotary, steps), start=1):
                loss, right = step_loss(head, output, embedding, step, texts, wanted, self.rows)
                so_far = so_far & right
                rights.append(int(so_far.sum()))
                counts.append(int(texts.learn[:, step:].sum()))
                if counts[-1]:
                    total, weight = total + STEP_DECAY ** (step - 1) * loss, weight + STEP_DECAY ** (step - 1)
        return total / max(weight, 1e-9), rights, counts

    def texts(self, corpus: Corpus, batch: IntArray) -> Texts:
        """A padded batch of texts, each cut to `max_text_tokens`."""
        starts = corpus.offsets[batch]
        lengths = np.minimum(corpus.offsets[batch + 1] - starts, self.max_text_tokens)
        place = torch.arange(int(lengths.max()))
        real = place < torch.as_tensor(lengths)[:, None]
        index = torch.where(real, torch.as_tensor(starts)[:, None] + place, torch.as_tensor(starts)[:, None])
        device = self.rows.device
        return Texts(
            corpus.taps[index].to(device),
            self.parts.embedding[corpus.tokens[index].to(device)],
            corpus.best[index].to(device),
            (corpus.learn[index] & real).to(device),
        )


def survival(
    head: EagleHead | ParallelHead,
    parts: TargetParts,
    corpus: Corpus,
    texts: IntArray,
    settings: TrainSettings,
    depth: int,
) -> list[float]:
    """Share of entries whose first d draft tokens are all the target's own best, d = 1..`depth`.

    Entries too near the end of a text for d tokens are left out of d's share.
    """
    scene = Scene.of(head, parts, settings)
    rights, counts = np.zeros(depth), np.zeros(depth)
    with torch.inference_mode():
        for first in range(0, len(texts), settings.batch_texts):
            _, right, count = scene.losses(head, corpus, texts[first : first + settings.batch_texts], depth)
            rights, counts = rights + right, counts + count
    return [float(value) for value in rights / np.maximum(counts, 1)]


def draft_vocabulary(corpus: Corpus, size: int, vocab_size: int) -> Tensor:
    """The `size` token ids the target puts first most often in the corpus, ascending; low ids fill up."""
    counts = torch.bincount(corpus.best[corpus.learn], minlength=vocab_size)
    counts += torch.bincount(corpus.tokens[corpus.learn], minlength=vocab_size)
    order = torch.argsort(counts, descending=True, stable=True)
    return order[: min(size, vocab_size)].sort().values
