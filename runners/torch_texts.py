"""Training texts: the target's own answers to prompts, and prompts it wrote itself."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightspec_bench.runners.torch_features import Text, read_texts, text_line
from lightspec_bench.runners.torch_generate import Stop, Wanted, generate
from lightspec_bench.runners.torch_selfprompt import openers, stop_tokens, write_prompts

GROUP = 384  # texts generated between two writes
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TrainPrompt:
    """A user turn to answer. `own`: the target wrote it, so its tokens are learnt from too."""

    id: str
    source: str
    turn: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class TextSettings:
    """How answers are made: each prompt is answered greedily once, and `num_samples` times at `temperature`.

    Of prompts the target wrote, `num_self_prompts`, each is answered once: greedily, or at `temperature` for
    `sampled_share` of them.
    """

    max_tokens: int = 192
    max_prompt_tokens: int = 512
    num_samples: int = 1
    temperature: float = 0.8
    num_self_prompts: int = 0
    sampled_share: float = 0.4
    batch_size: int = 96
    seed: int = 0


def make_texts(
    model: Any, tokenizer: Any, prompts: Sequence[TrainPrompt], settings: TextSettings, folder: Path, report: Report
) -> list[Text]:
    """All texts of these settings, read from `folder` where they are there already; the rest is generated.

    An interruption loses at most one group; going on later gives other samples, but no text twice.
    """
    path = folder / "texts.jsonl"
    own = self_prompts(model, tokenizer, settings, folder)
    texts = read_texts(path) if path.is_file() else []
    _rewrite(path, texts)
    made = {(text.prompt, text.temperature) for text in texts}
    jobs = [job for job in _jobs(prompts, own, settings) if (_name(job), job[1]) not in made]
    total = len(texts) + len(jobs)
    with path.open("a", encoding="utf-8") as file:
        for first in range(0, len(jobs), GROUP):
            group = jobs[first : first + GROUP]
            for text in _answered(model, tokenizer, group, settings, settings.seed + len(texts)):
                texts.append(text)
                file.write(text_line(text))
            file.flush()
            report(len(texts), total)
    return texts


Job = tuple[TrainPrompt, float, int]


def _name(job: Job) -> str:
    return job[0].id if job[2] == 0 else f"{job[0].id}#{job[2]}"


def _jobs(prompts: Sequence[TrainPrompt], own: Sequence[TrainPrompt], settings: TextSettings) -> list[Job]:
    """(prompt, temperature, number of the sample) of every text, in an order that depends on the seed alone."""
    rng = random.Random(settings.seed)
    jobs: list[Job] = [(prompt, 0.0, 0) for prompt in prompts]
    jobs += [(prompt, settings.temperature, number) for prompt in prompts for number in range(settings.num_samples)]
    sampled = [rng.random() < settings.sampled_share for _ in own]
    jobs += [(prompt, settings.temperature * drawn, 0) for prompt, drawn in zip(own, sampled, strict=True)]
    rng.shuffle(jobs)
    return jobs


def _answered(model: Any, tokenizer: Any, jobs: Sequence[Job], settings: TextSettings, seed: int) -> Iterator[Text]:
    stop = Stop(stop_tokens(model, tokenizer), settings.max_tokens)
    rows, learn_from = [], []
    for prompt, temperature, _ in jobs:
        tokens, turn = chat_tokens(tokenizer, prompt.turn)
        tokens = tokens[: settings.max_prompt_tokens]
        rows.append(Wanted(tokens, temperature))
        learn_from.append(turn if prompt.own else len(tokens))
    for index, new in generate(model, rows, stop, settings.batch_size, seed):
        whole = rows[index].prompt + tuple(new)
        yield Text(jobs[index][0].source, _name(jobs[index]), whole, learn_from[index], rows[index].temperature)


def chat_tokens(tokenizer: Any, turn: str) -> tuple[tuple[int, ...], int]:
    """Token ids of a user turn in the chat template, ready to be answered; and where the turn itself begins."""
    if not getattr(tokenizer, "chat_template", None):
        return tuple(tokenizer(turn).input_ids), 0
    message = {"role": "user", "content": turn}
    text = tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
    before = text[: text.index(turn)] if turn in text else ""
    tokens = tokenizer(text, add_special_tokens=False).input_ids
    return tuple(tokens), len(tokenizer(before, add_special_tokens=False).input_ids)


def self_prompts(model: Any, tokenizer: Any, settings: TextSettings, folder: Path) -> list[TrainPrompt]:
    """The prompts the target wrote for these settings, kept in `folder`."""
    path = folder / "self-prompts.jsonl"
    if not path.is_file() and settings.num_self_prompts:
        wanted = openers(settings.num_self_prompts, settings.seed)
        turns = write_prompts(model, tokenizer, wanted, settings.seed, settings.batch_size)
        lines = [
            json.dumps({"id": f"self-{number}", "source": f"self-{opener.category}", "turns": [turn]})
            for number, (opener, turn) in enumerate(zip(wanted, turns, strict=True))
            if turn
        ]
        _replace(path, "".join(f"{line}\n" for line in lines))
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return [TrainPrompt(row["id"], row["source"], row["turns"][0], own=True) for row in rows]


def _rewrite(path: Path, texts: Sequence[Text]) -> None:
    """Without the line that an interruption cut off."""
    _replace(path, "".join(text_line(text) for text in texts))


def _replace(path: Path, content: str) -> None:
    part = path.with_name(f".{path.name}")
    part.write_text(content, encoding="utf-8")
    os.replace(part, path)
