"""Drafters for vLLM by the specs that the other commands take, as its `speculative_config`; vLLM is not imported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError, Drafter
from lightspec_bench.registry import Option, check_options, did_you_mean, parse_spec
from lightspec_bench.runners.layer_skip import layer_skip_folder
from lightspec_bench.runners.vllm_support import METHODS

DEFAULT_DEPTH = 8
_LOOKUPS: dict[str, dict[str, tuple[type, Any, str]]] = {
    # our option -> its type and vLLM's key
    "ngram": {"min_n": (int, 1, "prompt_lookup_min"), "max_n": (int, 4, "prompt_lookup_max")},
    "suffix": {
        "max_tree_depth": (int, 24, "suffix_decoding_max_tree_depth"),
        "max_cached_requests": (int, 10_000, "suffix_decoding_max_cached_requests"),
        "max_spec_factor": (float, 1.0, "suffix_decoding_max_spec_factor"),
        "min_token_prob": (float, 0.1, "suffix_decoding_min_token_prob"),
    },
}
_CHECKPOINTS = {
    "model": "draft_model", "eagle": "eagle", "eagle3": "eagle3", "mtp": "mtp", "dflash": "dflash", "medusa": "medusa",
    "custom": "custom_class",
}  # fmt: skip
_SKIP = {name: Option(name, int, None, True) for name in ("first", "last")}


@dataclass(frozen=True, slots=True)
class VllmDrafter:
    """vLLM's `speculative_config`, and what planners and records are told of it."""

    config: dict[str, Any]
    name: str
    shape: Drafter

    @property
    def method(self) -> str:
        return str(self.config["method"])

    @property
    def signals(self) -> frozenset[str]:
        """What the plug-in sees of its certainty: nothing of a lookup, which has none."""
        return frozenset({"confidence", "entropy"}) if METHODS[self.method].confidences else frozenset()


def vllm_drafter(spec: str, target: str, max_draft_tokens: int | None = None) -> VllmDrafter:
    """The drafter of a spec, or of a `speculative_config` as JSON, for the target in a folder or of a hub name.

    Without `max_draft_tokens` (D) it is 8, or what the JSON says. `layer-skip` writes the target's checkpoint without
    these layers to our cache, for vLLM to load as a draft model, and a chain head of ours is written there in the
    layout that the plug-in lets vLLM load. Raises `BenchError` for what names no drafter.
    """
    if spec.lstrip().startswith("{"):
        return _raw(spec, max_draft_tokens)
    name, _, place = spec.partition(":")
    depth = max_draft_tokens or DEFAULT_DEPTH
    if name in _LOOKUPS:
        return _lookup(spec, depth)
    if name == "layer-skip":
        given = check_options("drafter layer-skip", parse_spec(spec)[1], _SKIP)
        folder = str(layer_skip_folder(target, given["first"], given["last"]))
        return _drafter({"method": "draft_model", "model": folder}, depth, f"layer-skip {place}")
    head = place or spec
    if name in ("eagle", spec) and _is_ours(head):
        return _drafter({"method": "eagle3", "model": str(_exported(head, target))}, depth, f"eagle {Path(head).name}")
    if name not in _CHECKPOINTS:
        known = [*_LOOKUPS, "layer-skip", *_CHECKPOINTS]
        raise BenchError(
            f"unknown drafter {spec!r} for vLLM{did_you_mean(name, known)} or a speculative_config as JSON"
        )
    if not place and name != "mtp":  # its heads may be in the target's own checkpoint
        raise BenchError(f"drafter {spec!r} names no checkpoint, expected {name}:FOLDER")
    where = {"model": str(Path(place).expanduser()) if name != "custom" else place} if place else {}
    return _drafter({"method": _CHECKPOINTS[name], **where}, depth, f"{name} {Path(place).name}".strip())


def _drafter(config: dict[str, Any], depth: int, name: str) -> VllmDrafter:
    method = config["method"]
    kind = "parallel" if config.get("parallel_drafting") else METHODS[method].kind
    return VllmDrafter(config | {"num_speculative_tokens": depth}, name, Drafter(kind, depth))


def _is_ours(head: str) -> bool:
    """Whether it is a head that ships, or a folder with one of ours."""
    from lightspec_bench.runners.torch_checkpoints import FORMAT, shipped_heads

    path = Path(head).expanduser() / "config.json"
    if head in shipped_heads() or not path.is_file():
        return head in shipped_heads()
    return bool(json.loads(path.read_text(encoding="utf-8")).get("format") == FORMAT)


def _exported(head: str, target: str) -> Path:
    """The head's folder for vLLM, written anew: it is small, and may have been trained again."""
    from lightspec_bench.runners.torch_smollm2 import cache_folder
    from lightspec_bench.runners.vllm_eagle_layout import export_head

    source = Path(target).expanduser()
    if not source.is_dir():
        raise BenchError(f"drafter {head}: target {target} is no folder, expected a checkpoint on this machine")
    out = cache_folder() / f"{Path(head).name}-for-{source.resolve().name}"
    out.parent.mkdir(parents=True, exist_ok=True)
    return export_head(head, source, out)


def _lookup(spec: str, depth: int) -> VllmDrafter:
    name, given = parse_spec(spec)
    known = _LOOKUPS[name]
    options = {key: Option(key, kind, default, False) for key, (kind, default, _) in known.items()}
    given = {key: default for key, (_, default, _) in known.items()} | check_options(f"drafter {name}", given, options)
    if name == "ngram" and not 1 <= given["min_n"] <= given["max_n"]:
        raise BenchError(f"min_n is {given['min_n']} and max_n {given['max_n']}, expected 1 <= min_n <= max_n")
    config = {"method": name, **{key: given[option] for option, (_, _, key) in known.items()}}
    return _drafter(config, depth, f"ngram {given['min_n']}-{given['max_n']}" if name == "ngram" else name)


def _raw(spec: str, max_draft_tokens: int | None) -> VllmDrafter:
    try:
        config = json.loads(spec)
    except json.JSONDecodeError as error:
        raise BenchError(f"drafter {spec!r} is no JSON: {error}") from None
    method = config.get("method")
    if method not in METHODS:
        raise BenchError(f"drafter {spec}: method is {method!r}, expected one of {', '.join(METHODS)}")
    depth = max_draft_tokens or config.get("num_speculative_tokens") or DEFAULT_DEPTH
    name = f"{method} {Path(str(config['model'])).name}" if config.get("model") else method
    return _drafter(config, depth, name)
