"""The log of a serving engine's steps, request by request: what it writes while it serves, a trace is made of it later.

A side file whose settings are the trace's metadata; a line per finished request, its arrays in base64 and signals in
half precision (3 digits): numbers as text would take the engine longer than they are worth.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightspec_bench.core import BoolArray, Confidence, IntArray
from lightspec_bench.errors import BenchError

FORMAT = "lightspec-bench step log"
VERSION = 1


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that was served. Entry s is its step s after the first token: draft tokens verified, tokens that came
    out, (S,), and the confidences of those that were verified, (S, D), None where the engine shows none.

    `arrival_s` is on any clock that all requests of a log share.
    """

    name: str
    arrival_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_verify_tokens: IntArray
    num_emitted: IntArray
    confidence: Confidence | None = None
    entropy: Confidence | None = None

    def entry(self) -> dict[str, Any]:
        """JSON values."""
        known = {name: value for name in ("confidence", "entropy") if (value := getattr(self, name)) is not None}
        signals = {
            name: _text(value[_drafted(self.num_verify_tokens, value.shape[1])].astype("<f2"))
            for name, value in known.items()
        }
        return {
            "request_id": self.name,
            "arrival_s": self.arrival_s,
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_output_tokens": self.num_output_tokens,
            "num_verify_tokens": _text(self.num_verify_tokens.astype("<i2")),
            "num_emitted": _text(self.num_emitted.astype("<i2")),
            **signals,
        }

    @classmethod
    def of(cls, entry: Mapping[str, Any], max_draft_tokens: int, where: str) -> LoggedRequest:
        """From JSON values; raises `BenchError` for anything else."""
        try:
            verified = _counts(entry["num_verify_tokens"])
            return cls(
                name=str(entry["request_id"]),
                arrival_s=float(entry["arrival_s"]),
                num_prompt_tokens=int(entry["num_prompt_tokens"]),
                num_output_tokens=int(entry["num_output_tokens"]),
                num_verify_tokens=verified,
                num_emitted=_counts(entry["num_emitted"]),
                confidence=_signal(entry.get("confidence"), verified, max_draft_tokens),
                entropy=_signal(entry.get("entropy"), verified, max_draft_tokens),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BenchError(f"{where} is no request of a step log ({error!r})") from None


def _text(values: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _counts(text: str) -> IntArray:
    return np.frombuffer(base64.b64decode(text), "<i2").astype(np.int64)


def _signal(text: str | None, verified: IntArray, max_draft_tokens: int) -> Confidence | None:
    if text is None:
        return None
    signal = np.full((len(verified), max_draft_tokens), np.nan, dtype=np.float32)
    signal[_drafted(verified, max_draft_tokens)] = np.frombuffer(base64.b64decode(text), "<f2")
    return signal


def _drafted(verified: IntArray, width: int) -> BoolArray:
    """(S, D): the draft tokens that were verified; only theirs are written."""
    return np.asarray(np.arange(width) < verified[:, None])
