"""From prompts to a trained head in a folder: texts, hidden states, training, acceptance, record."""

from __future__ import annotations

import platform
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lightspec_bench import __version__
from lightspec_bench.core import BenchError, IntArray
from lightspec_bench.runners.torch_checkpoints import load_head, save_head
from lightspec_bench.runners.torch_features import Corpus, Text, extract, final_norm
from lightspec_bench.runners.torch_generate import use_grouped_attention
from lightspec_bench.runners.torch_head_kinds import EagleHead, ParallelHead, build_head
from lightspec_bench.runners.torch_heads import HeadSettings
from lightspec_bench.runners.torch_texts import TextSettings, TrainPrompt, make_texts
from lightspec_bench.runners.torch_train import (
    Progress,
    TargetParts,
    Trainer,
    TrainSettings,
    draft_vocabulary,
    survival,
)

HELD_OUT_ONE_IN = 20
FLAT_START = 0.3  # of the target's final norm: an untrained head starts near an even distribution
Report = Callable[[str, int, int, str], None]  # stage, done, total, what to say beside


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """The shape of a new head; what is None follows the target."""

    taps: tuple[int, ...] | None = None
    intermediate_size: int | None = None
    draft_vocab_size: int = 8192
    num_slots: int = 8
    rank: int = 128


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """All that a training run is made of. `licences` say, per source of prompts, under which terms they came."""

    kind: str
    target: str
    out: Path
    prompts: Sequence[TrainPrompt]
    text: TextSettings = field(default_factory=TextSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    head: HeadOptions = field(default_factory=HeadOptions)
    licences: dict[str, str] = field(default_factory=dict)
    init: Path | None = None
    keep_work: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("eagle", "parallel"):
            raise BenchError(f"head kind is {self.kind!r}, expected eagle or parallel")

    @property
    def work(self) -> Path:
        """Where texts, hidden states and checkpoint lie while training."""
        return self.out.with_name(f"{self.out.name}.work")


def train_head(request: TrainRequest, model: Any, tokenizer: Any, report: Report) -> dict[str, Any]:
    """Train a head for `model` (a transformers causal language model) and write it to `request.out`.

    Goes on where an interrupted run with the same settings stopped. Returns the training record, which is written
    beside the weights as training.json.
    """
    request.work.mkdir(parents=True, exist_ok=True)
    use_grouped_attention(model)
    texts = make_texts(model, tokenizer, request.prompts, request.text, request.work, _stage(report, "texts"))
    texts = [text for text in texts if len(text.tokens) - text.learn_from > 2]
    taps = request.head.taps or default_taps(int(model.config.num_hidden_layers))
    corpus = extract(model, texts, taps, request.work, _stage(report, "hidden states"))
    trained, held_out = split(texts)
    head = new_head(request, model, corpus, taps)
    parts = target_parts(model, taps)
    trainer = Trainer(head, parts, corpus, trained, request.train, request.work / "checkpoint.pt")
    trainer.run(_training(report))
    depth = request.head.num_slots if request.kind == "parallel" else 8
    record = training_record(request, texts, trainer, trained, held_out)
    record["held_out_survival"] = survival(head, parts, corpus, held_out, request.train, depth)
    save_head(head, request.out, record)
    if not request.keep_work:
        shutil.rmtree(request.work)
    return record


def default_taps(num_layers: int) -> tuple[int, ...]:
    """Early, middle, late and last layer."""
    return tuple(sorted({min(2, num_layers), max(1, num_layers // 2), max(1, num_layers - 3), num_layers}))


def split(texts: Sequence[Text]) -> tuple[IntArray, IntArray]:
    """Texts to train on and texts held out: about one prompt in twenty, by its name, with all of its texts."""
    held = [zlib.crc32(text.prompt.split("#")[0].encode()) % HELD_OUT_ONE_IN == 0 for text in texts]
    trained, out = np.flatnonzero(~np.array(held)), np.flatnonzero(held)
    if not len(trained):
        raise BenchError(f"{len(texts)} texts are too few to train on, expected some hundreds")
    return trained, out if len(out) else trained[-1:]


def new_head(request: TrainRequest, model: Any, corpus: Corpus, taps: tuple[int, ...]) -> EagleHead | ParallelHead:
    """The head to train: that of `request.init`, or a new one in the target's shape."""
    if request.init is not None:
        found = load_head(request.init)
        if not isinstance(found, EagleHead | ParallelHead) or found.settings.kind != request.kind:
            raise BenchError(f"{request.init}: a head of kind {found.settings.kind}, expected {request.kind} of ours")
        if found.settings.taps != taps:
            raise BenchError(f"{request.init}: reads layers {found.settings.taps}, this run {taps}")
        return found.to(model.device)
    torch.manual_seed(request.train.seed)
    head = build_head(head_settings(request, model, taps))
    vocab = draft_vocabulary(corpus, head.settings.draft_vocab_size, int(model.config.vocab_size))
    head.draft_token_ids.copy_(vocab)  # type: ignore[operator]
    with torch.no_grad():
        weight: torch.Tensor = final_norm(model).weight  # type: ignore[assignment]
        head.norm.weight.copy_(FLAT_START * weight.float().cpu())
        if isinstance(head, ParallelHead):
            head.slots.normal_(std=0.02)
    return head.to(model.device)


def head_settings(request: TrainRequest, model: Any, taps: tuple[int, ...]) -> HeadSettings:
    """A head in the target's shape: its hidden size, heads and rotary parameters."""
    config, options = model.config, request.head
    size, heads = int(config.hidden_size), int(config.num_attention_heads)
    rope = dict(getattr(config, "rope_parameters", None) or {})
    rope.setdefault("rope_type", "default")
    rope.setdefault("rope_theta", float(getattr(config, "rope_theta", 10000.0)))
    return HeadSettings(
        kind="parallel" if request.kind == "parallel" else "eagle",
        target=Path(request.target).name,
        taps=taps,
        hidden_size=size,
        target_hidden_size=size,
        intermediate_size=options.intermediate_size or int(config.intermediate_size),
        num_heads=heads,
        num_kv_heads=int(getattr(config, "num_key_value_heads", heads)),
        head_dim=int(getattr(config, "head_dim", None) or size // heads),
        draft_vocab_size=min(options.draft_vocab_size, int(config.vocab_size)),
        rms_norm_eps=float(getattr(config, "rms_norm_eps", 1e-5)),
        rope=rope,
        num_slots=options.num_slots if request.kind == "parallel" else 1,
        rank=options.rank if request.kind == "parallel" else 0,
    )


def target_parts(model: Any, taps: Sequence[int]) -> TargetParts:
    """Embeddings, output matrix and final norm of a transformers model. Raises BenchError where the last tap is not
    the last layer, from which training reads the target's distributions."""
    num_layers = int(model.config.num_hidden_layers)
    if taps[-1] != num_layers:
        raise BenchError(f"taps are {tuple(taps)}, expected the last to be {num_layers}, the target's last layer")
    return TargetParts(
        model.get_input_embeddings().weight.detach(),
        model.get_output_embeddings().weight.detach(),
        final_norm(model),
    )


def training_record(
    request: TrainRequest, texts: Sequence[Text], trainer: Trainer, trained: IntArray, held_out: IntArray
) -> dict[str, Any]:
    """How a head came to be: data and their licences, tokens, steps, seconds, date and versions."""
    import transformers

    learnt = Counter[str]()
    for text in texts:
        learnt[text.source] += len(text.tokens) - text.learn_from
    return {
        "target": Path(request.target).name,
        "kind": request.kind,
        "texts": "the target's own answers, and its own prompts where the source is self-*",
        "tokens_learnt_by_source": dict(sorted(learnt.items())),
        "licences": request.licences,
        "num_texts": len(texts),
        "num_texts_held_out": len(held_out),
        "num_tokens": sum(len(text.tokens) for text in texts),
        "num_parameters": sum(weight.numel() for weight in trainer.head.parameters()),
        "num_iterations": trainer.iteration,
        "num_entries_trained": trainer.num_rows_seen,
        "training_seconds": round(trainer.seconds, 1),
        "text_settings": asdict(request.text),
        "train_settings": asdict(request.train),
        "init": None if request.init is None else request.init.name,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "versions": {
            "lightspec_bench": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        },
    }


def _stage(report: Report, name: str) -> Callable[[int, int], None]:
    return lambda done, total: report(name, done, total, "")


def _training(report: Report) -> Callable[[Progress], None]:
    """Loss and first-token accuracy as running means over about thirty iterations."""
    means = {"loss": 0.0, "accuracy": 0.0, "weight": 0.0}

    def say(now: Progress) -> None:
        means["weight"] = 0.97 * means["weight"] + 0.03
        for name, value in (("loss", now.loss), ("accuracy", now.accuracy)):
            means[name] = 0.97 * means[name] + 0.03 * value
        loss, accuracy = means["loss"] / means["weight"], means["accuracy"] / means["weight"]
        said = f"loss {loss:.3f}, first draft token right {accuracy:.1%}, {now.rows_per_s:,.0f} entries/s"
        report("training", now.iteration, now.num_iterations, said)

    return say
