"""A tiny checkpoint folder with random weights, a tokenizer of whole words and a chat template, and prompts for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.runners.torch_support import tiny_model

WORDS = [f"w{number}" for number in range(40)]
TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"


def save_checkpoint(folder: Path, seed: int = 0) -> Path:
    """Weights in float32, at most 256 positions; some outputs repeat themselves, so lookups find something."""
    model: Any = tiny_model(seed=seed).model
    model.config._attn_implementation = "sdpa"
    model.save_pretrained(folder)
    return save_tokenizer(folder)


def save_tokenizer(folder: Path) -> Path:
    """A tokenizer of whole words beside a model."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<unk>": 0, **{word: i for i, word in enumerate(WORDS, start=1)}}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def save_prompts(path: Path, number: int = 6) -> Path:
    """Prompts of 3 to 12 words, the first words again at the end."""
    rows = []
    for row in range(number):
        words = [WORDS[(7 * row + 3 * i) % len(WORDS)] for i in range(2 + row % 5)]
        rows.append({"id": f"p{row}", "prompt": " ".join([*words, *words])})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
