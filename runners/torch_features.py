"""What a head learns from: the target's hidden states over whole texts, in one file that is mapped, not loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightspec_bench.core import BenchError, BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Text:
    """One training text as token ids. `learn_from`: the first position whose distribution is learnt from.

    Texts of one `prompt` are either all trained on or all held out.
    """

    source: str
    prompt: str
    tokens: tuple[int, ...]
    learn_from: int
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.learn_from <= len(self.tokens):
            raise BenchError(
                f"text of {self.source}: learn_from is {self.learn_from}, expected 0..{len(self.tokens)} (its length)"
            )


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts one after another: text i owns rows `offsets[i]:offsets[i + 1]`.

    `taps` (N, T, H) bfloat16 lies in a file; `best` (N,) is the target's own most probable next token at each row;
    `learn` (N,) says which rows' distributions are learnt.
    """

    offsets: IntArray
    tokens: Tensor
    best: Tensor
    learn: Tensor
    taps: Tensor

    @property
    def num_texts(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_rows(self) -> int:
        return int(self.offsets[-1])


@contextmanager
def tapped(model: Any, taps: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """While open, a forward of `model` leaves its hidden states in the dictionary, by tap (0: the embeddings)."""
    found: dict[int, Tensor] = {}

    def keep(tap: int) -> Callable[..., None]:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            found[tap] = output[0] if isinstance(output, tuple) else output

        return hook

    modules = [model.get_input_embeddings(), *decoder_layers(model)]
    if max(taps) >= len(modules):
        raise BenchError(f"taps are {tuple(taps)}, expected at most the target's {len(modules) - 1} layers")
    handles = [modules[tap].register_forward_hook(keep(tap)) for tap in taps]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def decoder_layers(model: Any) -> torch.nn.ModuleList:
    """The decoder layers of a transformers model. Raises BenchError where no list of their number is found."""
    number = int(model.config.num_hidden_layers)
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == number:
            return module
    raise BenchError(f"{type(model).__name__}: no list of {number} decoder layers was found in the model")


def final_norm(model: Any) -> torch.nn.Module:
    """The norm between the last decoder layer and the output matrix. Raises BenchError where none is found."""
    for name in ("norm", "final_layernorm", "ln_f", "final_layer_norm"):
        if isinstance(found := getattr(model.get_decoder(), name, None), torch.nn.Module):
            return found
    raise BenchError(f"{type(model).__name__}: no final norm was found in the model")


def extract(
    model: Any, texts: Sequence[Text], taps: Sequence[int], folder: Path, progress: Callable[[int, int], None]
) -> Corpus:
    """Run the target over every text once and keep its hidden states in `folder`; done before, they are read."""
    index, data = folder / "corpus.npz", folder / "features.bin"
    width = len(taps) * int(model.config.hidden_size)
    if not index.is_file():
        offsets = np.concatenate(([0], np.cumsum([len(text.tokens) for text in texts])))
        best = np.zeros(offsets[-1], dtype=np.int32)
        part = data.with_suffix(".part")
        with part.open("wb") as file, torch.inference_mode(), tapped(model, taps) as found:
            for number, text in enumerate(texts):
                best[offsets[number] : offsets[number + 1]] = _forward(model, text)
                states = torch.cat([found[tap][0] for tap in taps], dim=-1)
                file.write(states.to(torch.bfloat16).cpu().contiguous().view(torch.int16).numpy().tobytes())
                progress(number + 1, len(texts))
        os.replace(part, data)
        _write_index(index, offsets, texts, best)
    return read_corpus(folder, len(taps), width // len(taps))


def _forward(model: Any, text: Text) -> IntArray:
    """The target's best next token at each position; hidden states are caught on the way."""
    tokens = torch.tensor([text.tokens], device=model.device)
    logits = model(input_ids=tokens, use_cache=False).logits[0]
    return logits.float().max(-1).indices.cpu().numpy()  # type: ignore[no-any-return]


def _write_index(path: Path, offsets: IntArray, texts: Sequence[Text], best: IntArray) -> None:
    tokens = np.concatenate([np.asarray(text.tokens, dtype=np.int32) for text in texts])
    learn = np.concatenate([_learnt(text) for text in texts])
    part = path.with_name(f".{path.name}")
    with part.open("wb") as file:
        np.savez(file, offsets=offsets, tokens=tokens, best=best, learn=learn)
    os.replace(part, path)


def _learnt(text: Text) -> BoolArray:
    """Rows from `learn_from` on, without the last: nothing follows an end."""
    place = np.arange(len(text.tokens))
    return (place >= text.learn_from) & (place < len(text.tokens) - 1)


def read_corpus(folder: Path, num_taps: int, hidden_size: int) -> Corpus:
    """The corpus that `extract` left in `folder`; raises BenchError where the file does not hold what it should."""
    with np.load(folder / "corpus.npz") as arrays:
        offsets, tokens, best, learn = (arrays[name] for name in ("offsets", "tokens", "best", "learn"))
    rows, data = int(offsets[-1]), folder / "features.bin"
    expected = rows * num_taps * hidden_size * 2
    if data.stat().st_size != expected:
        raise BenchError(f"{data}: {data.stat().st_size} bytes, expected {expected} for {rows} rows; delete the folder")
    flat = torch.from_file(str(data), shared=False, size=expected // 2, dtype=torch.bfloat16)
    return Corpus(
        offsets,
        torch.from_numpy(tokens.astype(np.int64)),
        torch.from_numpy(best.astype(np.int64)),
        torch.from_numpy(learn),
        flat.view(rows, num_taps, hidden_size),
    )


def read_texts(path: Path) -> list[Text]:
    """Texts of a JSONL file that `write_text` made; a last line cut off by an interruption is left out."""
    texts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break
        texts.append(Text(row["source"], row["prompt"], tuple(row["tokens"]), row["learn_from"], row["temperature"]))
    return texts


def text_line(text: Text) -> str:
    """One line of the JSONL file."""
    return json.dumps(asdict(text)) + "\n"
