"""A checkpoint without some of its decoder layers, written for an engine that loads its drafter from a folder."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.runners.torch_smollm2 import cache_folder

_LAYER = re.compile(r"(.*\blayers\.)(\d+)(\..*)")
_BESIDE = ("*.json", "*.jinja", "*.txt", "*.model")  # tokenizer and templates


def layer_skip_folder(target: str, first: int, last: int) -> Path:
    """The folder of the target without layers `first` to `last`, counted from 0, both included; written once.

    Raises `BenchError` for layers it does not have, and unless it is a folder of safetensors.
    """
    source = Path(target).expanduser()
    if not source.is_dir():
        raise BenchError(f"drafter layer-skip: target {target} is no folder, expected a checkpoint on this machine")
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    number = int(config.get("num_hidden_layers", 0))
    if not 0 <= first <= last < number or last - first + 1 >= number:
        raise BenchError(
            f"drafter layer-skip: first is {first} and last {last}, expected some of 0 to {number - 1} of {target}"
        )
    folder = cache_folder() / f"{source.resolve().name}-without-{first}-to-{last}"
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write(source, work, config, first, last)
            work.rename(folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


def _write(source: Path, folder: Path, config: dict[str, Any], first: int, last: int) -> None:
    from safetensors.torch import load_file, save_file

    files = sorted(source.glob("*.safetensors"))
    if not files:
        raise BenchError(f"{source}: holds no safetensors, expected a checkpoint with some")
    weights = {name: value for file in files for name, value in load_file(str(file)).items()}
    kept = {new: value for name, value in weights.items() if (new := renamed(name, first, last))}
    save_file(kept, str(folder / "model.safetensors"), metadata={"format": "pt"})
    for pattern in _BESIDE:
        for path in source.glob(pattern):
            if path.name != "model.safetensors.index.json":
                shutil.copy(path, folder)
    text = json.dumps(config_without(config, first, last), indent=2)
    (folder / "config.json").write_text(text, encoding="utf-8")


def renamed(name: str, first: int, last: int) -> str | None:
    """A weight's name once the layers are gone, None for one of theirs."""
    found = _LAYER.fullmatch(name)
    if found is None or int(found[2]) < first:
        return name
    if int(found[2]) <= last:
        return None
    return f"{found[1]}{int(found[2]) - (last - first + 1)}{found[3]}"


def config_without(config: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    """The settings with fewer layers; lists of one entry a layer lose theirs."""
    number = config["num_hidden_layers"]
    shorter = {
        key: value[:first] + value[last + 1 :]
        for key, value in config.items()
        if isinstance(value, list) and len(value) == number and key == "layer_types"
    }
    return config | shorter | {"num_hidden_layers": number - (last - first + 1)}
