"""A causal language model of transformers, run over flattened ragged batches with the slot cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lightspec_bench.core import BenchError
from lightspec_bench.runners import torch_attention
from lightspec_bench.runners.torch_attention import Ragged
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_graphs import make_graphs
from lightspec_bench.runners.torch_linear import pack_linears
from lightspec_bench.runners.torch_rows import Rows

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
_ATTENTION = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, slots=True)
class Output:
    """Of one forward pass: logits of the rows that were kept, and hidden states of all rows at the taps."""

    logits: Tensor  # (K, V)
    features: Tensor | None  # (R, T, H)


class TorchModel:
    """Any transformers causal language model whose attention goes through transformers' attention interface.

    Sets the model's attention to ours; `layers` can leave decoder layers out (see `torch_lm`). Engines keep passes of
    it, and of its drafter, as `graphs` says. Raises `BenchError` for a model whose layers are not attention or whose
    attention cannot be replaced.
    """

    def __init__(self, model: Any, name: str) -> None:
        self.model, self.name = model.eval(), name
        self.config = model.config.get_text_config(decoder=True)
        self.device, self.dtype = next(model.parameters()).device, next(model.parameters()).dtype
        self._check()
        torch_attention.register()
        model.config._attn_implementation = torch_attention.NAME
        self.config._attn_implementation = torch_attention.NAME
        pack_linears(model, self.head)
        self.graphs = make_graphs(self.device)
        self._captured: dict[int, Tensor] = {}
        self._watched: dict[int, Any] = {}

    # ------------------------------------------------------------------ what drafters ask

    @property
    def num_layers(self) -> int:
        return int(self.config.num_hidden_layers)

    @property
    def hidden_size(self) -> int:
        return int(self.config.hidden_size)

    @property
    def vocab_size(self) -> int:
        return int(self.config.vocab_size)

    @property
    def max_positions(self) -> int | None:
        """Longest sequence the model was made for; None where its configuration does not say."""
        found = getattr(self.config, "max_position_embeddings", None)
        return None if found is None else int(found)

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder layers."""
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == self.num_layers:
                return module
        raise BenchError(f"{self.name}: no list of {self.num_layers} decoder layers was found in the model")

    @property
    def embedding(self) -> nn.Module:
        """Token ids to hidden states."""
        return self.model.get_input_embeddings()  # type: ignore[no-any-return]

    @property
    def head(self) -> nn.Module:
        """Final-normed hidden states to logits."""
        return self.model.get_output_embeddings()  # type: ignore[no-any-return]

    @property
    def final_norm(self) -> nn.Module:
        """The norm between the last decoder layer and the head."""
        base = getattr(self.model, self.model.base_model_prefix)
        for name in ("norm", "final_layernorm", "ln_f", "final_layer_norm"):
            if isinstance(found := getattr(base, name, None), nn.Module):
                return found
        raise BenchError(f"{self.name}: no final norm was found in {type(base).__name__}")

    # ------------------------------------------------------------------ forward

    def watch(self, taps: tuple[int, ...]) -> None:
        """Capture hidden states at these taps: 0 the embeddings, i the output of decoder layer i."""
        for tap in taps:
            if not 0 <= tap <= self.num_layers:
                raise BenchError(f"tap is {tap}, expected 0 to {self.num_layers}, the layers of {self.name}")
            if tap not in self._watched:
                self._watched[tap] = self._hook(tap)

    def forward(
        self, tokens: Tensor, rows: Rows, cache: SlotCache, keep: Tensor | None = None, taps: tuple[int, ...] = ()
    ) -> Output:
        """One pass over the rows' tokens (R,), whose keys and values go into the cache.

        `keep` are the rows whose logits are wanted, (K,), all where None; `taps` must have been watched.
        """
        out = self.model(
            input_ids=tokens.unsqueeze(0),
            position_ids=rows.position.unsqueeze(0),
            use_cache=False,
            logits_to_keep=0 if keep is None else keep,
            ragged=Ragged(rows, cache),
        )
        features = torch.stack([self._captured[tap] for tap in taps], dim=1) if taps else None
        return Output(out.logits[0], features)

    def _hook(self, tap: int) -> Any:
        if tap == 0:
            return self.embedding.register_forward_hook(lambda _, __, out: self._keep(0, out))
        return self.layers[tap - 1].register_forward_hook(lambda _, __, out: self._keep(tap, out))

    def _keep(self, tap: int, out: Any) -> None:
        hidden = out[0] if isinstance(out, tuple) else out
        self._captured[tap] = hidden.reshape(-1, hidden.shape[-1])

    def _check(self) -> None:
        if not getattr(self.model, "_supports_attention_backend", False):
            raise BenchError(f"{self.name}: {type(self.model).__name__} does not take its attention from an interface")
        other = set(getattr(self.config, "layer_types", None) or ()) - _ATTENTION
        if other:
            raise BenchError(f"{self.name}: its layers are {', '.join(sorted(other))}, expected attention only")


def load_model(name: str, dtype: str = "float32", device: str = "cpu") -> TorchModel:
    """A causal language model by folder or hub name. Raises `BenchError` in one sentence where it cannot be loaded."""
    from transformers import AutoConfig, AutoModelForCausalLM

    where, kind = torch_device(device), torch_dtype(dtype)
    if _is_path(name) and not (Path(name) / "config.json").is_file():
        raise BenchError(f"model {name}: no config.json in this folder, expected a Hugging Face checkpoint")
    with out_of_memory(f"loading {name} in {dtype} on {device}: take a smaller model or dtype bfloat16"):
        try:
            AutoConfig.from_pretrained(name)
            with _no_bars():
                model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=kind, low_cpu_mem_usage=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise BenchError(f"model {name}: not loaded as a causal language model ({_first_line(error)})") from None
        return TorchModel(model.to(where), name)


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Without the bars that transformers draws on stderr, terminal or not."""
    from transformers.utils import logging as untyped

    logging: Any = untyped
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def random_model(config: Any, name: str, dtype: str = "float32", device: str = "cpu", seed: int = 0) -> TorchModel:
    """A model of a configuration's shape with random weights: for measuring latency, and for tests."""
    from transformers import AutoModelForCausalLM

    where, kind = torch_device(device), torch_dtype(dtype)
    with out_of_memory(f"building {name} in {dtype} on {device}: take a smaller model or dtype bfloat16"), where:
        torch.manual_seed(seed)
        build: Any = AutoModelForCausalLM.from_config
        return TorchModel(build(config, dtype=kind).to(where), name)


def load_tokenizer(name: str) -> Any:
    """The model's tokenizer. Raises `BenchError` where there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise BenchError(f"model {name}: its tokenizer was not loaded ({_first_line(error)})") from None


def stop_tokens(model: TorchModel) -> tuple[int, ...]:
    """Token ids at which the model's generation configuration ends an output; empty where it names none."""
    found = getattr(model.model.generation_config, "eos_token_id", None)
    if found is None:
        found = getattr(model.config, "eos_token_id", None)
    if found is None:
        return ()
    return tuple(int(token) for token in (found if isinstance(found, (list, tuple)) else [found]))


def torch_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise BenchError(f"device is {name!r}, expected cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise BenchError(f"device is {name!r}, expected cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise BenchError(f"device is {name!r}, but torch finds no CUDA device on this machine")
    return device


def torch_dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise BenchError(f"dtype is {name!r}, expected one of {', '.join(DTYPES)}")
    return DTYPES[name]


@contextlib.contextmanager
def out_of_memory(advice: str) -> Iterator[None]:
    """Turn running out of memory into one sentence that ends with what to lower."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError):
        raise BenchError(f"out of memory while {advice}") from None
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise BenchError(f"out of memory while {advice}") from None


def _is_path(name: str) -> bool:
    return Path(name).exists() or name.startswith((".", "/", "~"))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
