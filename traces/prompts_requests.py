"""Requests of prompts: chat template and tokenizer applied, one request per user turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lightspec_bench.core import BenchError, IntArray
from lightspec_bench.traces.prompts_rows import Prompt


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    chat_template: Any

    def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> Any: ...

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """What a runner decodes: `token_ids`, (P,), P >= 1, ends where the answer to turn `turn` (from 0) begins."""

    id: str
    category: str
    turn: int
    token_ids: IntArray


def requests_of(
    prompts: Iterable[Prompt],
    tokenizer: Tokenizer,
    chat_template: bool = True,
    multi_turn: bool = True,
    template_options: Mapping[str, Any] | None = None,
) -> list[PromptRequest]:
    """One request per user turn, or only each prompt's first turn without `multi_turn`.

    A later turn needs the conversation before it. The answers there are the recorded ones, never the target's own,
    which are not known before the run. A turn without a recorded answer (MT-Bench has none) is joined with the next
    by a blank line into one user message, as many templates refuse two in a row. Ids of prompts of several turns get
    `#1`, `#2`, ...

    `chat_template` applies the tokenizer's own, with its generation prompt; `template_options` go to it, such as
    `{"enable_thinking": False}`. Without it the texts, system message first, are joined by blank lines and the
    tokenizer adds the special tokens it adds to plain text. Raises `BenchError` where the tokenizer has no template or
    the template refuses a conversation, and for a prompt of no tokens.
    """
    if chat_template and not tokenizer.chat_template:
        raise BenchError("the tokenizer has no chat template, expected one with it, or prompts without chat template")
    return [
        PromptRequest(
            name, prompt.category, turn, _ids(prompt.id, messages, tokenizer, chat_template, template_options)
        )
        for prompt in prompts
        for name, turn, messages in _conversations(prompt, multi_turn)
    ]


def _conversations(prompt: Prompt, multi_turn: bool) -> Iterator[tuple[str, int, list[dict[str, str]]]]:
    """(request id, turn, messages that end with that turn) for each request of a prompt."""
    messages = [] if prompt.system is None else [{"role": "system", "content": prompt.system}]
    waiting: list[str] = []
    for turn, (text, answer) in enumerate(zip(prompt.turns, prompt.answers, strict=True)):
        waiting.append(text)
        asked = {"role": "user", "content": "\n\n".join(waiting)}
        name = f"{prompt.id}#{turn + 1}" if multi_turn and len(prompt.turns) > 1 else prompt.id
        yield name, turn, [*messages, asked]
        if not multi_turn:
            return
        if answer is not None:
            messages += [asked, {"role": "assistant", "content": answer}]
            waiting = []


def _ids(
    name: str,
    messages: list[dict[str, str]],
    tokenizer: Tokenizer,
    chat_template: bool,
    template_options: Mapping[str, Any] | None,
) -> IntArray:
    if chat_template:
        text = _templated(name, messages, tokenizer, template_options or {})
    else:
        text = "\n\n".join(message["content"] for message in messages)
    # verbose: how long a prompt may be is the runner's business, the tokenizer need not log it
    ids = np.asarray(tokenizer(text, add_special_tokens=not chat_template, verbose=False)["input_ids"], np.int64)
    if not len(ids):
        raise BenchError(f"prompt {name!r} has no tokens, expected at least 1")
    return ids


def _templated(name: str, messages: list[dict[str, str]], tokenizer: Tokenizer, options: Mapping[str, Any]) -> str:
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
    except Exception as error:  # a template is a program of the model's author: it may raise anything
        raise BenchError(f"prompt {name!r}: the chat template refuses it ({' '.join(str(error).split())})") from error
    return str(text)
