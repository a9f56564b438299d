"""Prompts written by the target itself: it continues an opened user turn (the idea of Magpie, arXiv 2406.08464)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from lightspec_bench.runners.torch_generate import Stop, Wanted, generate

MAX_PROMPT_TOKENS = 120
TEMPERATURE = 0.9
STEP_BY_STEP = "\nPlease reason step by step, and put your final answer within \\boxed{}."
PASS_TESTS = "Write a solution to the following problem and make sure that it passes the tests:\n```python\n"
NAMES = (
    "Anna", "Ben", "Carla", "Dan", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jack", "Kira", "Liam", "Mona", "Nils",
    "Olga", "Paul", "Rosa", "Sam", "Tina", "Uma", "Victor", "Wendy", "Yusuf", "Zoe", "Tom", "Maria", "Peter", "Lily",
    "Emma", "Mark", "Susan", "John", "Mia", "Leo", "Amy", "Bob", "Kate", "Jim", "Sara", "Alex",
)  # fmt: skip
DOINGS = (
    "has", "has 12", "bought", "buys", "earns", "is baking", "wants to buy", "spends", "saved", "reads", "drives",
    "runs", "works", "sells", "planted", "collects", "and her friends", "and his brother", "needs", "is", "made",
    "started with",
)  # fmt: skip
CHAT = (
    "Write", "Write a short", "Write an email", "Write a blog post about", "Write a story", "Can you",
    "Can you explain", "How do I", "How can I", "How does", "What is", "What are", "What are the best", "Why",
    "Explain", "Explain how", "I want you to", "I want to", "I am", "I have a", "I need", "Please", "Please write",
    "Create a", "Create a table", "Give me", "Give me a list of", "Act as", "You are a", "Suggest", "Describe",
    "Compare", "Summarize", "Translate", "Imagine you are", "Draft", "Develop", "Design a", "Make a",
    "Make a plan for", "Tell me about", "Help me", "List", "Is it", "Should I", "Generate", "Provide", "Discuss",
    "Analyze", "If", "The", "In", "Hi", "Hello", "Who", "When", "",
)  # fmt: skip
CODE = (
    "Write a python function to", "Write a function to find", "Write a function that", "Write a function to",
    "Write a python function to check", "Write a python program to", "Write a python function that takes a list",
    "Write a program", "How do I write python code to", "Fix this code:\n```python\n",
    "Explain this code:\n```python\n", "In python, how",
)  # fmt: skip
SIGNATURES = (
    "def", "from typing import List\n\n\ndef", "\n\ndef", "import math\n\n\ndef",
    "from typing import Any\n\n\ndef",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Opener:
    """How a user turn begins, what is put behind it once the target has ended it, and what it is about."""

    category: str
    start: str
    end: str = ""


def openers(count: int, seed: int = 0) -> list[Opener]:
    """`count` openings: two in five chat, one math, two code (one of them a function to complete), in turn."""
    rng = random.Random(seed)
    made = []
    for index in range(count):
        kind = index % 5
        if kind in (0, 3):
            made.append(Opener("chat", rng.choice(CHAT)))
        elif kind == 1:
            made.append(Opener("math", f"{rng.choice(NAMES)} {rng.choice(DOINGS)}", STEP_BY_STEP))
        elif kind == 2:
            made.append(Opener("code", rng.choice(CODE)))
        else:
            made.append(Opener("code", PASS_TESTS + rng.choice(SIGNATURES)))
    return made


def write_prompts(model: Any, tokenizer: Any, wanted: list[Opener], seed: int = 0, batch_size: int = 96) -> list[str]:
    """User turns as text, one per opener; an empty one where the target wrote nothing."""
    stop = Stop(stop_tokens(model, tokenizer), MAX_PROMPT_TOKENS)
    rows = [Wanted(_opened(tokenizer, opener), TEMPERATURE) for opener in wanted]
    turns = [""] * len(wanted)
    for index, tokens in generate(model, rows, stop, batch_size, seed):
        opener = wanted[index]
        text = opener.start + str(tokenizer.decode(tokens, skip_special_tokens=True))
        turns[index] = (text.strip() + opener.end) if text.strip() else ""
    return turns


def _opened(tokenizer: Any, opener: Opener) -> tuple[int, ...]:
    """Chat template up to and with the start of the user's turn; the start alone where there is no template."""
    if not getattr(tokenizer, "chat_template", None):
        return tuple(tokenizer(opener.start or " ").input_ids)
    mark = "\x00"
    text = tokenizer.apply_chat_template([{"role": "user", "content": mark}], tokenize=False)
    return tuple(tokenizer(text.split(mark)[0] + opener.start, add_special_tokens=False).input_ids)


def stop_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Token ids that end a turn, from the generation settings, else from the tokenizer."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    ids = tokenizer.eos_token_id if ids is None else ids
    return tuple(ids) if isinstance(ids, list | tuple) else (ids,) if ids is not None else ()
