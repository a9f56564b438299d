"""Recording live traffic: an observer that logs each finished request's steps, and makes a trace when serving ends.

What it does in a step is three writes into arrays; a request is written out once, when it finishes, by a thread beside.
"""

from __future__ import annotations

import atexit
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightspec_bench import __version__
from lightspec_bench.core import BenchError, Confidence, Drafter, IntArray
from lightspec_bench.registry import resolve
from lightspec_bench.runners.vllm_control import Control
from lightspec_bench.runners.vllm_outcomes import Observer
from lightspec_bench.runners.vllm_requests import FinishedRequest
from lightspec_bench.runners.vllm_steps import TimedStep
from lightspec_bench.side_file import SideFile
from lightspec_bench.step_log import FORMAT, VERSION, LoggedRequest

logger = logging.getLogger("vllm.lightspec_bench")
_FIRST_STEPS = 256


class LiveRecorder(Observer):
    """Writes `out` from `OUT.log`, which stays: an engine that starts again goes on with it, and `traces import` makes
    a trace of it where the engine was killed. vLLM gives an engine time to end with `--shutdown-timeout`.

    The first `most` requests are recorded. Requests that put out less than two tokens tell nothing and are left out.
    """

    def __init__(self, out: Path, info: dict[str, Any], most: int, wants_confidences: bool) -> None:
        self.wants_confidences = wants_confidences
        self.out, self._most, self._depth = out, most, int(info["max_draft_tokens"])
        self._log = SideFile(
            out.with_name(out.name + ".log"), {"format": FORMAT, "version": VERSION, **info}, resume=True
        )
        self._importer = resolve("importer", "step-log")()  # loaded now: there may be little time when serving ends
        self._number = len(self._log.entries)
        self._log.entries.clear()  # they are on the disk, and serving goes on for long
        self._steps: IntArray = np.zeros(0, dtype=np.int64)
        self._counts: npt.NDArray[np.int16] = np.zeros((2, 0, 0), dtype=np.int16)  # verified, emitted
        self._signals: npt.NDArray[np.float32] = np.zeros((2, 0, 0, self._depth), dtype=np.float32)
        # Arrivals on the wall clock, so that a log can be gone on with.
        self._wall_s = time.time() - time.perf_counter()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="lightspec-recorder")
        self._open = True
        atexit.register(self.close)  # an engine in the user's own process is not always shut down

    def emitted(
        self,
        slots: IntArray,
        num_verify_tokens: IntArray,
        num_emitted: IntArray,
        confidence: Confidence | None,
        entropy: Confidence | None,
    ) -> None:
        if not len(slots) or self._number >= self._most:
            return
        highest = int(slots.max())
        if highest >= len(self._steps):
            self._add_slots(highest + 1 - len(self._steps))
        place = self._steps[slots]
        if int(place.max()) >= self._counts.shape[2]:
            self._add_steps()
        self._counts[0, slots, place] = num_verify_tokens
        self._counts[1, slots, place] = num_emitted
        if self.wants_confidences:  # what lies past the verified ones is not written out
            self._signals[0, slots, place] = np.nan if confidence is None else confidence
            self._signals[1, slots, place] = np.nan if entropy is None else entropy
        self._steps[slots] = place + 1

    def _add_slots(self, more: int) -> None:
        self._steps = np.pad(self._steps, (0, more))
        self._counts = np.pad(self._counts, ((0, 0), (0, more), (0, 0)))
        self._signals = np.pad(self._signals, ((0, 0), (0, more), (0, 0), (0, 0)))

    def _add_steps(self) -> None:
        more = max(self._counts.shape[2], _FIRST_STEPS)
        self._counts = np.pad(self._counts, ((0, 0), (0, 0), (0, more)))
        if self.wants_confidences:
            self._signals = np.pad(self._signals, ((0, 0), (0, 0), (0, more), (0, 0)))

    def stepped(self, timed: TimedStep) -> None:
        pass

    def finished(self, slot: int, request: FinishedRequest) -> None:
        number = int(self._steps[slot]) if slot < len(self._steps) else 0
        if number and request.num_output_tokens > 1 and self._number < self._most:
            signals = self._signals[:, slot, :number].copy() if self.wants_confidences else (None, None)
            self._number += 1
            self._writer.submit(
                self._write,
                LoggedRequest(
                    name=request.name,
                    arrival_s=self._wall_s + request.arrived_at_s,
                    num_prompt_tokens=request.num_prompt_tokens,
                    num_output_tokens=request.num_output_tokens,
                    num_verify_tokens=self._counts[0, slot, :number].astype(np.int64),
                    num_emitted=self._counts[1, slot, :number].astype(np.int64),
                    confidence=signals[0],
                    entropy=signals[1],
                ),
            )
        if slot < len(self._steps):
            self._steps[slot] = 0

    def _write(self, request: LoggedRequest) -> None:
        """A disk that is full ends the recording, not the serving."""
        try:
            self._log.append(request.entry())
            self._log.entries.clear()
        except BenchError as error:
            self._most = 0
            logger.warning("lightspec: recording ends (%s)", error)

    def close(self) -> None:
        """Make the trace of everything in the log; once."""
        was_open, self._open = self._open, False
        atexit.unregister(self.close)
        self._writer.shutdown()
        self._log.close()
        if not was_open or not self._number:
            return
        try:
            self._importer.convert(self._log.path, self.out)
            logger.info("lightspec: %d requests recorded in %s", self._number, self.out)
        except BenchError as error:  # an engine that ends has more to do than this
            logger.warning("lightspec: no trace was made of the recording (%s)", error)


def live_recorder(vllm_config: Any, control: Control, out: Path, most: int = 10_000) -> LiveRecorder:
    """A recorder of the engine that `control` is part of; each data-parallel rank has a file of its own."""
    from vllm import __version__ as version

    rank = int(vllm_config.parallel_config.data_parallel_index)
    if rank:
        out = out.with_name(f"{out.name.removesuffix('.parquet')}.{rank}.parquet")
    return LiveRecorder(out, _info(vllm_config, control.config.drafter, version), most, control.shows_confidence)


def _info(vllm_config: Any, shape: Drafter, version: str) -> dict[str, Any]:
    """What the metadata of a trace of this engine's traffic says, its name left to the file's."""
    speculative = vllm_config.speculative_config
    model = getattr(speculative, "model", None)
    method = "none" if speculative is None else speculative.method
    drafter = method if model is None or str(model) == method else f"{method} {Path(str(model)).name}"
    return {
        "target": Path(str(vllm_config.model_config.model)).name,
        "drafter": drafter,
        "drafter_kind": shape.kind,
        "max_draft_tokens": shape.max_draft_tokens,
        "dataset": "live traffic",
        "sampling": "as each request asked for",
        "indexing": "step",
        "origin": "recorded",
        "made_by": f"lightspec-bench {__version__} in vLLM {version}, {vllm_config.model_config.dtype}",
        "licence": "counts and probabilities only",
    }
