"""Draft heads as folders: config.json and safetensors. Ours, published EAGLE-3 heads and Speculators' format."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_head_kinds import Head, ParallelHead, PublishedEagle3Head, build_head
from lightspec_bench.runners.torch_heads import HeadSettings

FORMAT = "lightspec-bench-head"
WEIGHTS = "model.safetensors"
SHIPPED = Path(__file__).parent / "heads"
_LAYER = {
    "self_attn.q_proj": "layer.q_proj",
    "self_attn.k_proj": "layer.k_proj",
    "self_attn.v_proj": "layer.v_proj",
    "self_attn.o_proj": "layer.o_proj",
    "self_attn.q_norm": "layer.q_norm",
    "self_attn.k_norm": "layer.k_norm",
    "mlp.gate_proj": "layer.gate_proj",
    "mlp.up_proj": "layer.up_proj",
    "mlp.down_proj": "layer.down_proj",
    "input_layernorm": "embedding_norm",
    "hidden_norm": "hidden_norm",
    "post_attention_layernorm": "layer.post_attention_norm",
}
_OUTSIDE = {"fc": "fc", "norm": "norm", "lm_head": "lm_head", "embed_tokens": "embed_tokens", "input_norm": "fc_norm"}
_IGNORED = ("t2d", "verifier_norm.weight", "verifier_lm_head.weight", "rotary_emb.inv_freq")


def shipped_heads() -> list[str]:
    """Names of the heads that come with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob(f"*/{WEIGHTS}"))


def head_folder(name: str | Path) -> Path:
    """Folder of a shipped head by name, or the path itself. Raises BenchError where there is none."""
    for folder in (SHIPPED / str(name), Path(name).expanduser()):
        if (folder / "config.json").is_file():
            return folder
    known = ", ".join(shipped_heads()) or "none"
    raise BenchError(f"head {name}: no folder with a config.json, expected one or a shipped head ({known})")


def load_head(name: str | Path, num_target_layers: int | None = None) -> Head:
    """A head from a folder or by the name of a shipped one, float32, in evaluation mode.

    `num_target_layers` gives published heads that do not say so the layers EAGLE-3 taps: 2, the middle, 3 from the end.
    """
    folder = head_folder(name)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BenchError(f"{folder}/config.json: not JSON ({error})") from None
    weights = _read_weights(folder)
    if config.get("format") == FORMAT:
        return _load_own(folder, config, weights)
    return _load_published(folder, config, weights, num_target_layers)


def save_head(head: Head, folder: Path, record: dict[str, Any] | None = None, num_bits: int = 8) -> None:
    """Write one of our heads: matrices as int8 with a float16 scale per row (`num_bits` 8), else float16.

    `record` is written beside as training.json. Nothing is left half-written.
    """
    config = {"format": FORMAT, "version": 1, **dataclasses.asdict(head.settings)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        from safetensors.torch import save_file

        save_file(_packed(head.state_dict(), num_bits), work / WEIGHTS, metadata={"format": "pt"})
        _write_json(work / "config.json", config)
        if record is not None:
            _write_json(work / "training.json", record)
        folder.mkdir(exist_ok=True)
        for path in work.iterdir():
            path.chmod(0o644)
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _packed(weights: dict[str, Tensor], num_bits: int) -> dict[str, Tensor]:
    packed = {}
    for name, weight in weights.items():
        if not weight.is_floating_point():
            packed[name] = weight.to(torch.int32)
        elif num_bits == 8 and weight.dim() == 2 and name.endswith(".weight"):
            scale = (weight.abs().amax(dim=1, keepdim=True) / 127).clamp(min=1e-8).to(torch.float16)
            packed[name] = (weight / scale.float()).round().clamp(-127, 127).to(torch.int8)
            packed[f"{name}.scale"] = scale
        else:
            packed[name] = weight.to(torch.float16)
    return {name: weight.contiguous() for name, weight in packed.items()}


def _unpacked(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, weight in weights.items():
        if name.endswith(".scale"):
            continue
        scale = weights.get(f"{name}.scale")
        wide = weight.to(torch.int64) if not weight.is_floating_point() and scale is None else weight.float()
        found[name] = wide if scale is None else wide * scale.float()
    return found


def _load_own(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> Head:
    names = {field.name for field in dataclasses.fields(HeadSettings)}
    try:
        given: dict[str, Any] = {name: value for name, value in config.items() if name in names}
        settings = HeadSettings(**{**given, "taps": tuple(given["taps"])})
    except (TypeError, KeyError) as error:
        raise BenchError(f"{folder}/config.json: not the settings of a head ({error})") from None
    head = build_head(settings)
    return _filled(head, _unpacked(weights), folder)


def _load_published(
    folder: Path, config: dict[str, Any], weights: dict[str, Tensor], num_target_layers: int | None
) -> Head:
    layer = config.get("transformer_layer_config", config)
    kind = config.get("speculators_model_type", "eagle3")
    if kind != "eagle3":
        raise BenchError(f"{folder}: a Speculators head of type {kind!r}, expected 'eagle3'")
    renamed = {_renamed(name, folder): weight for name, weight in weights.items() if name not in _IGNORED}
    if "fc.weight" not in renamed or "layer.q_proj.weight" not in renamed:
        raise BenchError(
            f"{folder}: not an EAGLE-3 head (no fc.weight with midlayer.* or layers.0.*); the formats that load are "
            "EAGLE-3, Speculators eagle3 and our own"
        )
    settings = _published_settings(folder, config, layer, renamed, num_target_layers)
    d2t = renamed.pop("d2t", None)
    ids = torch.arange(settings.draft_vocab_size)
    renamed["draft_token_ids"] = ids if d2t is None else ids + d2t.to(torch.int64)
    embedding = renamed.get("embed_tokens.weight")
    head = PublishedEagle3Head(settings, embedding is not None, 0 if embedding is None else len(embedding))
    return _filled(head, {name: w.float() if w.is_floating_point() else w for name, w in renamed.items()}, folder)


def _renamed(name: str, folder: Path) -> str:
    """A published name as ours. Raises BenchError for a weight that the layout does not have."""
    if name == "d2t":
        return name
    stem, _, kind = name.rpartition(".")
    for prefix in ("midlayer.", "layers.0."):
        if stem.startswith(prefix) and stem[len(prefix) :] in _LAYER:
            return f"{_LAYER[stem[len(prefix) :]]}.{kind}"
    if stem in _OUTSIDE:
        return f"{_OUTSIDE[stem]}.{kind}"
    raise BenchError(f"{folder}: weight {name!r} is not of the EAGLE-3 layout (one decoder layer), so it does not load")


def _published_settings(
    folder: Path,
    config: dict[str, Any],
    layer: dict[str, Any],
    weights: dict[str, Tensor],
    num_target_layers: int | None,
) -> HeadSettings:
    size, heads = int(layer["hidden_size"]), int(layer["num_attention_heads"])
    num_taps = weights["fc.weight"].shape[1] // size
    taps = config.get("eagle_aux_hidden_state_layer_ids") or _default_taps(folder, num_target_layers)
    if len(taps) != num_taps or weights["layer.q_proj.weight"].shape[1] != 2 * size:
        raise BenchError(
            f"{folder}: fc.weight reads {num_taps} hidden states and q_proj {weights['layer.q_proj.weight'].shape[1]} "
            f"inputs, expected {len(taps)} and {2 * size}"
        )
    rope = dict(layer.get("rope_parameters") or layer.get("rope_scaling") or {})
    rope["rope_type"] = rope.get("rope_type", rope.pop("type", "default"))
    rope.setdefault("rope_theta", float(layer.get("rope_theta", 10000.0)))
    return HeadSettings(
        kind="eagle3",
        target=str(config.get("speculators_config", {}).get("verifier", {}).get("name_or_path", "")),
        taps=tuple(int(tap) for tap in taps),
        hidden_size=size,
        target_hidden_size=int(config.get("target_hidden_size") or size),
        intermediate_size=int(layer["intermediate_size"]),
        num_heads=heads,
        num_kv_heads=int(layer.get("num_key_value_heads", heads)),
        head_dim=int(layer.get("head_dim") or size // heads),
        draft_vocab_size=len(weights["lm_head.weight"]) if "lm_head.weight" in weights else 1,
        rms_norm_eps=float(layer.get("rms_norm_eps", 1e-6)),
        rope=rope,
        attention_bias=bool(layer.get("attention_bias", False)),
        qk_norm="layer.q_norm.weight" in weights,
        norm_before_residual=bool(config.get("norm_before_residual", False)),
        norm_before_fc="fc_norm.weight" in weights,
    )


def _default_taps(folder: Path, num_layers: int | None) -> tuple[int, ...]:
    if num_layers is None:
        raise BenchError(f"{folder}: the head does not name the layers it reads, so the target's depth must be given")
    return 2, num_layers // 2, num_layers - 3


def _filled(head: Head, weights: dict[str, Tensor], folder: Path) -> Head:
    """Put the weights in. Raises BenchError naming the first that is missing, left over or of another shape."""
    wanted = head.state_dict()
    for name in sorted(wanted.keys() | weights.keys()):
        if name not in weights or name not in wanted:
            what = "is missing" if name not in weights else "is not part of this kind of head"
            raise BenchError(f"{folder}/{WEIGHTS}: weight {name} {what}")
        if wanted[name].shape != weights[name].shape:
            found, expected = tuple(weights[name].shape), tuple(wanted[name].shape)
            raise BenchError(f"{folder}/{WEIGHTS}: weight {name} has shape {found}, expected {expected}")
    head.load_state_dict(weights)
    return head.eval()


def _read_weights(folder: Path) -> dict[str, Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        other = " (pytorch_model.bin is there: convert it to safetensors first)" if any(folder.glob("*.bin")) else ""
        raise BenchError(f"{folder}: no .safetensors file{other}")
    from safetensors.torch import load_file

    found: dict[str, Tensor] = {}
    for path in files:
        found.update(load_file(path))
    return found


def _write_json(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def num_slots(head: Head) -> int:
    """Draft tokens a head can propose at most in one go; 0 where a chain may be of any length."""
    return head.settings.num_slots if isinstance(head, ParallelHead) else 0
