"""Ties: how far apart the target finds the two tokens at which an output parts from that of no speculation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightspec_bench.bench import Bench
from lightspec_bench.reports.cells import NO_SPECULATION
from lightspec_bench.store import read_json, write_json
from lightspec_bench.suite import Cell

TIES = "ties.json"
OUTPUTS = "outputs"
CLOSE = 2.0  # steps of the dtype: one for each of the two logits
_MANTISSA_BITS = {"float32": 23, "float16": 10, "bfloat16": 7}


@dataclass(frozen=True, slots=True)
class Parting:
    """An output that is another than that of no speculation from `position` on: `plain` stood there, `other` stands
    now, None where an output ends."""

    cell: str
    request: int
    position: int
    plain: int | None
    other: int | None


@dataclass(frozen=True, slots=True)
class Ties:
    """Of `num_partings` outputs that part, those where the two logits are at most `CLOSE` steps apart; `steps` is how
    far apart they are, NaN where one of the tokens is not among the likeliest."""

    num_partings: int
    num_ties: int
    steps: tuple[float, ...]


def compared_outputs(folder: Path, cells: Sequence[Cell]) -> Iterator[tuple[Cell, dict[str, Any], dict[str, Any]]]:
    """(cell, its outputs, those of no speculation in the same repeat at the same concurrency), where both are kept."""
    found = {cell: path for cell in cells if (path := folder / OUTPUTS / f"{cell.key}.json").exists()}
    plain = {
        (cell.concurrency, cell.seed): read_json(path) for cell, path in found.items() if cell.planner == NO_SPECULATION
    }
    for cell, path in found.items():
        reference = plain.get((cell.concurrency, cell.seed))
        if cell.planner != NO_SPECULATION and reference is not None:
            yield cell, read_json(path), reference


def partings(folder: Path, cells: Sequence[Cell]) -> list[Parting]:
    """Where each output that differs begins to."""
    return [
        _parting(cell, int(name), tokens, reference[name])
        for cell, outputs, reference in compared_outputs(folder, cells)
        for name, tokens in outputs.items()
        if name in reference and tokens != reference[name]
    ]


def _parting(cell: Cell, request: int, tokens: Sequence[int], plain: Sequence[int]) -> Parting:
    common = min(len(tokens), len(plain))
    position = next((p for p in range(common) if tokens[p] != plain[p]), common)
    here = [text[position] if position < len(text) else None for text in (plain, tokens)]
    return Parting(cell.key, request, position, *here)


def look_at_ties(folder: Path, cells: Sequence[Cell], bench: Bench) -> None:
    """Ask the target for its logits where outputs part, and keep the answers in the folder; nothing where none does or
    the engine does not show them."""
    found = partings(folder, cells)
    asked = [each for each in found if each.plain is not None and each.other is not None]
    if not asked:
        (folder / TIES).unlink(missing_ok=True)
        return
    number = len(bench.requests)
    plain = {
        (cell.concurrency, cell.seed): folder / OUTPUTS / f"{cell.key}.json"
        for cell in cells
        if cell.planner == NO_SPECULATION
    }
    place = {cell.key: (cell.concurrency, cell.seed) for cell in cells}
    texts = []
    for each in asked:
        output = read_json(plain[place[each.cell]])[str(each.request)]
        texts.append([*bench.requests[each.request % number].tokens, *output[: each.position]])
    logits = bench.engine.logits(texts, [(each.plain, each.other) for each in asked])
    if logits is not None:
        rows = [asdict(each) | {"logits": pair} for each, pair in zip(asked, logits, strict=True)]
        write_json(folder / TIES, {"num_partings": len(found), "partings": rows})


def read_ties(folder: Path, dtype: str) -> Ties | None:
    """What was kept, None where nothing was."""
    path = folder / TIES
    if not path.exists():
        return None
    document = read_json(path)
    pairs = [row["logits"] for row in document["partings"]]
    steps = [steps_apart(pair[0], pair[1], dtype) if pair else float("nan") for pair in pairs]
    return Ties(document["num_partings"], sum(step <= CLOSE for step in steps), tuple(steps))


def steps_apart(first: float, second: float, dtype: str) -> float:
    """The distance of two numbers in steps of a dtype at their size."""
    largest = max(abs(first), abs(second))
    step = 2.0 ** (np.floor(np.log2(largest)) - _MANTISSA_BITS[dtype]) if largest else 1.0
    return float(abs(first - second) / step)
