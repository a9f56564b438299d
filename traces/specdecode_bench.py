"""Importer of SpecDecode-Bench profiles (arXiv 2601.11580, github.com/SpecDecode-Bench/simulator)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lightspec_bench.core import BenchError, IntArray, Trace
from lightspec_bench.traces.importer import Recorded, build_trace, complete_info
from lightspec_bench.traces.lines import counts, first_object, read_objects

_KINDS = {"eagle": "autoregressive", "eagle_three": "autoregressive", "ngram": "ngram"}


class SpecDecodeBench:
    """`acc_len[p]` counts the tokens a step would emit when p output tokens are out, bonus included: accepted + 1.

    That alignment was checked on the published files: an n-gram's accepted tokens are those from output token p on,
    and the last entry may count the final token and a bonus behind it, which is capped here. `drafter` picks
    `acc_eagle`, `acc_ngram` or `acc_eagle_three`; `max_draft_tokens` in `given` caps the depth, else the deepest
    acceptance seen is the cap. The files do not say where an n-gram drafter had no match, so `num_draft_tokens`
    stays unknown and a replay counts a full draft everywhere: its rows are an upper bound for n-gram.
    """

    def __init__(self, drafter: Literal["eagle", "ngram", "eagle_three"] = "eagle", category: str = "all") -> None:
        self.drafter = drafter
        self.category = category

    def sniffs(self, path: Path) -> bool:
        first = first_object(path)
        return "generated_token_ids" in first and any(key.startswith("acc") for key in first)

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        requests = [self._request(value, where) for where, value in read_objects(path)]
        deepest = max((int(r.num_accepted.max()) for r in requests), default=1)
        found = {
            "drafter": self.drafter,
            "drafter_kind": _KINDS[self.drafter],
            "max_draft_tokens": max(deepest, 1),
            "made_by": f"lightspec-bench traces import, from {path.name} (SpecDecode-Bench, acc_{self.drafter})",
        }
        info = complete_info(found, given, path)
        capped = [
            Recorded(r.request_id, r.category, r.num_prompt_tokens, np.minimum(r.num_accepted, info.max_draft_tokens))
            for r in requests
        ]
        return build_trace(info, capped, path)

    def _request(self, line: dict[str, Any], where: str) -> Recorded:
        for key in ("id", "prompt_token_ids", "generated_token_ids"):
            if key not in line:
                raise BenchError(f"{where}: {key} is missing")
        prompt, output = line["prompt_token_ids"], line["generated_token_ids"]
        if not isinstance(prompt, list) or not isinstance(output, list) or not output:
            raise BenchError(f"{where}: prompt_token_ids and generated_token_ids are not lists of token ids")
        return Recorded(str(line["id"]), self.category, len(prompt), self._accepted(line, where, len(output)))

    def _accepted(self, line: dict[str, Any], where: str, length: int) -> IntArray:
        """(L,) accepted per position; a profile shorter than the output cuts the request to what was profiled."""
        key = f"acc_{self.drafter}" if f"acc_{self.drafter}" in line else "acc"
        value = line.get(key)
        profile = value.get("acc_len") if isinstance(value, dict) else value
        emitted = counts(profile, f"acc_{self.drafter}.acc_len", where)[:length]
        if len(emitted) == 0 or emitted.min() < 1:
            raise BenchError(f"{where}: acc_{self.drafter}.acc_len is not a list of numbers of at least 1")
        # what reaches past a cut is unknown; what reaches past the output's own end is not a token
        ahead = np.arange(len(emitted))[::-1] + 1
        return np.minimum(emitted - 1, ahead)
