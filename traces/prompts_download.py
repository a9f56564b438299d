"""Prompt files that are on no hub: fetched once into the user's cache."""

from __future__ import annotations

import http.client
import os
import urllib.request
from pathlib import Path

from lightspec_bench.core import BenchError
from lightspec_bench.files import write_atomically

_TIMEOUT_S = 30.0
_OFFLINE = ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE")


def fetched(name: str, url: str) -> Path:
    """`$XDG_CACHE_HOME/lightspec-bench/prompts/NAME.jsonl` (or below `~/.cache`), filled from `url` if not there yet.

    Raises `BenchError` without a network, and under `HF_DATASETS_OFFLINE` or `HF_HUB_OFFLINE`, where none is tried.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    path = (Path(base) if base else Path.home() / ".cache") / "lightspec-bench" / "prompts" / f"{name}.jsonl"
    if path.exists():
        return path
    if _offline():
        raise BenchError(f"{name}: {path} is not there and the network is switched off, expected the file of {url}")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise BenchError(
            f"{name}: {url} cannot be fetched ({error}), expected a network or the file as {path}"
        ) from error
    write_atomically(path, lambda temporary: temporary.write_bytes(content))
    return path


def _offline() -> bool:
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in _OFFLINE)
