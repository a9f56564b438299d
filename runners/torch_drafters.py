"""Drafters by spec: `ngram:max_n=4`, `suffix`, `model:PATH`, `layer-skip:first=10,last=15`, `eagle:PATH`, a head."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import Option, check_options, did_you_mean, options_of, parse_spec
from lightspec_bench.runners.torch_checkpoints import FORMAT, head_folder, shipped_heads
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_eagle import EagleDrafter
from lightspec_bench.runners.torch_lm import LmDrafter, without_layers
from lightspec_bench.runners.torch_model import TorchModel, load_model
from lightspec_bench.runners.torch_ngram import NgramDrafter
from lightspec_bench.runners.torch_parallel import ParallelDrafter
from lightspec_bench.runners.torch_suffix import SuffixDrafter

DEFAULT_DEPTH = 8
_LOOKUPS: dict[str, type[Any]] = {"ngram": NgramDrafter, "suffix": SuffixDrafter}
_SKIP = {name: Option(name, int, None, True) for name in ("first", "last")}


def drafter_names() -> list[str]:
    """What a spec may begin with; shipped heads are specs of their own."""
    return [*_LOOKUPS, "model", "layer-skip", "eagle", "parallel", *shipped_heads()]


def make_drafter(spec: str, target: TorchModel, max_draft_tokens: int | None = None) -> TorchDrafter:
    """The drafter of a spec for `target`, of at most `max_draft_tokens` (D) draft tokens.

    Without D it is 8, or all slots of a parallel head. `layer-skip` leaves out the target's decoder layers `first` to
    `last`, counted from 0, both included. A folder that holds a head is a spec too. Raises `BenchError` for a name,
    option or checkpoint that does not make a drafter of this target.
    """
    name, _, rest = spec.partition(":")
    if name in _LOOKUPS:
        return _lookup(spec, _LOOKUPS[name], max_draft_tokens or DEFAULT_DEPTH)
    if name == "layer-skip":
        return _layer_skip(spec, target, max_draft_tokens or DEFAULT_DEPTH)
    if name in _PLACES:
        if not rest:
            raise BenchError(f"drafter {spec!r} names no checkpoint, expected {name}:FOLDER")
        return _PLACES[name](rest, target, max_draft_tokens)
    if spec in shipped_heads() or (Path(spec).expanduser() / "config.json").is_file():
        return _head(spec, target, max_draft_tokens)
    raise BenchError(f"unknown drafter {spec!r}{did_you_mean(name, drafter_names())} or the folder of a head")


def _lookup(spec: str, cls: type[Any], depth: int) -> TorchDrafter:
    name, given = parse_spec(spec)
    known = {key: option for key, option in options_of(cls).items() if key != "max_draft_tokens"}
    drafter: TorchDrafter = cls(depth, **check_options(f"drafter {name}", given, known))
    return drafter


def _layer_skip(spec: str, target: TorchModel, depth: int) -> TorchDrafter:
    given = check_options("drafter layer-skip", parse_spec(spec)[1], _SKIP)
    first, last = given["first"], given["last"]
    if first > last:
        raise BenchError(f"drafter layer-skip: first is {first}, expected at most last, which is {last}")
    return LmDrafter(without_layers(target, range(first, last + 1)), depth)


def _model(place: str, target: TorchModel, depth: int | None) -> TorchDrafter:
    """A model of its own, in the target's dtype and on its device."""
    dtype = str(target.dtype).removeprefix("torch.")
    return LmDrafter(load_model(place, dtype, str(target.device)), depth or DEFAULT_DEPTH)


def _eagle(place: str, target: TorchModel, depth: int | None) -> TorchDrafter:
    return EagleDrafter(place, depth or DEFAULT_DEPTH, target.num_layers)


def _parallel(place: str, target: TorchModel, depth: int | None) -> TorchDrafter:
    return ParallelDrafter(place, depth)


def _head(place: str, target: TorchModel, depth: int | None) -> TorchDrafter:
    """A head whose own settings say of which kind it is."""
    config = json.loads((head_folder(place) / "config.json").read_text(encoding="utf-8"))
    is_parallel = config.get("format") == FORMAT and config.get("kind") == "parallel"
    return _parallel(place, target, depth) if is_parallel else _eagle(place, target, depth)


_Place = Callable[[str, TorchModel, "int | None"], TorchDrafter]
_PLACES: dict[str, _Place] = {"model": _model, "eagle": _eagle, "parallel": _parallel}
