"""Importer of step logs, which an engine of ours writes while it serves (`lightspec_bench.step_log`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.core import BenchError, Trace
from lightspec_bench.step_log import FORMAT, VERSION, LoggedRequest
from lightspec_bench.traces.format import write_trace
from lightspec_bench.traces.importer import Recorded, build_trace, complete_info
from lightspec_bench.traces.lines import first_object, read_objects
from lightspec_bench.traces.steps import positions_from_steps, spread_over_positions
from lightspec_bench.traces.validate import check_trace


class StepLog:
    """A line of metadata, then a line per request. Outcomes are known as far as the engine verified."""

    def sniffs(self, path: Path) -> bool:
        settings = first_object(path).get("settings")
        return isinstance(settings, dict) and settings.get("format") == FORMAT

    def read(self, path: Path, given: Mapping[str, Any]) -> Trace:
        lines = list(read_objects(path))
        settings = dict(lines[0][1].get("settings", {})) if lines else {}
        if settings.pop("format", None) != FORMAT or settings.pop("version", None) != VERSION:
            raise BenchError(f"{path}: no step log of version {VERSION}, expected one in its first line")
        info = complete_info(settings, given, path)
        requests = [LoggedRequest.of(entry, info.max_draft_tokens, where) for where, entry in lines[1:]]
        first_s = min((request.arrival_s for request in requests), default=0.0)
        return build_trace(info, [_recorded(request, first_s) for request in requests], path)

    def convert(self, log: Path, out: Path) -> None:
        """Write a log's requests as a trace. Raises `BenchError` for a log that has none."""
        trace = self.read(log, {"name": out.name.removesuffix(".parquet")})
        check_trace(trace, str(log))
        write_trace(trace, out)


def _recorded(request: LoggedRequest, first_s: float) -> Recorded:
    accepted = np.maximum(request.num_emitted - 1, 0)
    log = positions_from_steps(request.num_verify_tokens, accepted, request.num_output_tokens)
    return Recorded(
        request_id=request.name,
        category="all",
        num_prompt_tokens=request.num_prompt_tokens,
        num_accepted=log.num_accepted,
        arrival_s=request.arrival_s - first_s,
        num_draft_tokens=log.num_draft_tokens,
        confidence=spread_over_positions(request.confidence, log),
        entropy=spread_over_positions(request.entropy, log),
    )
