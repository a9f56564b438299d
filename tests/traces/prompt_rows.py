"""Rows of prompt files, and what is made of them, for the tests of prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.traces.prompts import Prompt, load_prompts


def prompt(
    *turns: str, id: str = "p-0", category: str = "p", answers: tuple[str | None, ...] = (), **more: Any
) -> Prompt:
    return Prompt(id, category, turns, answers or (None,) * len(turns), **more)


def write(path: Path, *rows: Any) -> str:
    """JSON lines; a text row is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return str(path)


def human(text: Any) -> dict[str, Any]:
    return {"from": "human", "value": text}


def gpt(text: Any) -> dict[str, Any]:
    return {"from": "gpt", "value": text}


def refused(source: str, **options: Any) -> str:
    with pytest.raises(BenchError) as caught:
        load_prompts(source, **options)
    return str(caught.value)
