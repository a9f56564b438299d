"""Latency tables of vidur profiles: per-operator milliseconds of one layer against tokens, summed over layers."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.latency_format import Point, number_in

_LAYER = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm", "mlp_up_proj",
    "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
_ONCE = ("emb", "input_layernorm")  # the embedding, and the final norm at the price of a layer's
_SHAPE = ("n_head", "n_kv_head", "n_embd", "vocab_size")
_WHOLE = (*_SHAPE, "num_tokens", "num_tensor_parallel_workers")
_OPERATORS = {op: f"time_stats.{op}.median" for op in dict.fromkeys((*_LAYER, *_ONCE))}
_BYTES = 2  # vidur profiles in 16 bits


def vidur_table(text: str, where: str, options: Mapping[str, Any]) -> tuple[dict[str, str], list[Point], list[str]]:
    """(header values, points, notes) of a vidur `mlp.csv`.

    A step of r rows is layers x the operators of a layer (medians; profiles of one size are averaged), the embedding
    and a final norm. `layers` is not in the file and must be given; `tensor_parallel` picks the rows. Attention and
    the output matrix are not in the file either: with `tb_per_s` and `tflops` they are estimated as a roofline
    (weights and KV cache once per step), without they cost nothing and the notes say so.
    """
    layers = options.get("layers")
    if not isinstance(layers, int) or layers < 1:
        raise BenchError(f"{where}: the number of layers is not in the file, expected --layers N")
    parallel = options.get("tensor_parallel") or 1
    by_tokens, shape = _rows(text, where, parallel)
    head = _Head(shape, parallel, _device(where, options.get("tb_per_s"), options.get("tflops")))
    points = []
    for tokens, rows in sorted(by_tokens.items()):
        ms = statistics.fmean(layers * sum(row[op] for op in _LAYER) + sum(row[op] for op in _ONCE) for row in rows)
        points.append(Point("target", tokens, 1, 0, round(ms + head.ms(tokens), 4)))
    found = {
        "engine": "none: kernels timed one by one (vidur), summed",
        "origin": "modelled",
        "dtype": "float16",
        "source": f"{Path(where).name}: medians per operator, {layers} layers, {parallel} tensor-parallel workers",
        "host_step_ms": "2.0",
        "context_cost": head.context_cost(layers),
    }
    return found, points, [_summed(layers), *head.notes(), "Host terms are assumptions"]


def _device(where: str, tb_per_s: float | None, tflops: float | None) -> tuple[float, float] | None:
    """Bandwidth and peak, where both are given."""
    if tb_per_s is None and tflops is None:
        return None
    if not (tb_per_s and tflops and 0 < tb_per_s < math.inf and 0 < tflops < math.inf):
        raise BenchError(f"{where}: --tb-per-s is {tb_per_s} and --tflops {tflops}, expected both above 0, or neither")
    return tb_per_s, tflops


def _summed(layers: int) -> str:
    return f"A step was never measured: {layers} x ({' + '.join(_LAYER)}) + emb + one input_layernorm (final norm)"


class _Head:
    """What the profile lacks: output matrix and reading the KV cache, as a roofline where the device is given."""

    def __init__(self, shape: Mapping[str, int], parallel: int, device: tuple[float, float] | None) -> None:
        self._weights = shape["n_embd"] * shape["vocab_size"] / parallel
        self._kv_bytes = 2 * shape["n_kv_head"] * shape["n_embd"] // shape["n_head"] * _BYTES / parallel
        self._device = device
        self._parallel = parallel

    def ms(self, rows: int) -> float:
        if self._device is None:
            return 0.0
        tb_per_s, tflops = self._device
        reading = self._weights * _BYTES / (tb_per_s * 1e12)
        return 1e3 * math.hypot(reading, 2 * self._weights * rows / (tflops * 1e12))

    def context_cost(self, layers: int) -> str:
        """Microseconds per context token."""
        if self._device is None:
            return "0"
        return f"{layers * self._kv_bytes / (self._device[0] * 1e6):.4g}"

    def notes(self) -> list[str]:
        notes = []
        if self._device is None:
            notes.append("Attention and the output matrix are not in the profile and cost nothing: all is too low")
        else:
            notes.append(
                f"Not in the profile, estimated at {self._device[0]:g} TB/s and {self._device[1]:g} TFLOP/s: the "
                "output matrix, and reading the KV cache"
            )
        if self._parallel > 1:
            notes.append("Communication between workers is not in the profile and costs nothing here")
        return notes


_Times = dict[str, float]


def _rows(text: str, where: str, parallel: int) -> tuple[dict[int, list[_Times]], dict[str, int]]:
    """(operators' milliseconds by tokens, the model's shape) of the rows with that many workers."""
    lines = csv.reader(text.splitlines())
    columns = _columns(next(lines, []), where)
    found: dict[int, list[_Times]] = {}
    workers: set[int] = set()
    shape: dict[str, int] = {}
    for number, cells in enumerate(lines, 2):
        if len(cells) != len(columns):
            raise BenchError(f"{where}:{number}: {len(cells)} values, expected {len(columns)}: is the file cut off?")
        row = dict(zip(columns, cells, strict=True))
        whole = {key: _whole(row, key, f"{where}:{number}") for key in _WHOLE}
        workers.add(whole["num_tensor_parallel_workers"])
        if whole["num_tensor_parallel_workers"] != parallel:
            continue
        mine = {key: whole[key] for key in _SHAPE}
        if shape and mine != shape:
            raise BenchError(f"{where}:{number}: another model's shape than in the rows before, expected one model")
        shape = mine
        found.setdefault(whole["num_tokens"], []).append(_times(row, f"{where}:{number}"))
    if not found:
        raise BenchError(f"{where}: no rows of {parallel} tensor-parallel workers, expected one of {sorted(workers)}")
    return found, shape


def _columns(columns: list[str], where: str) -> list[str]:
    for column in (*_OPERATORS.values(), *_WHOLE):
        if column not in columns:
            raise BenchError(f"{where}:1: column {column} is missing, expected a vidur mlp.csv")
    return columns


def _whole(row: Mapping[str, str], key: str, at: str) -> int:
    return int(number_in(row[key], f"{at}: {key}", least=1, whole=True))


def _times(row: Mapping[str, str], at: str) -> _Times:
    return {operator: number_in(row[column], f"{at}: {column}") for operator, column in _OPERATORS.items()}
