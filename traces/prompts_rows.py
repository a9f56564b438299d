"""Rows of prompt files: the shapes people store prompts in, read as user turns with what was answered to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lightspec_bench.skipped import Malformed as Malformed

# Fields that may hold the prompt, the richest first: a row with `messages` and `prompt` is read as a conversation.
PROMPT_FIELDS = (
    "turns", "conversations", "conversation", "items", "messages", "prompt", "question", "problem", "instruction",
    "text",
)  # fmt: skip
_ID_FIELDS = ("id", "question_id", "task_id", "prompt_id", "unique_id", "conversation_id")
_REFERENCE_FIELDS = ("reference", "references", "answer", "output", "canonical_solution", "solution")
_USER = {"user", "human", "prompter"}
_ASSISTANT = {"assistant", "gpt", "chatgpt", "bing", "bard", "model"}
_SYSTEM = {"system", "developer"}
# SPEED-Bench publishes about half of its rows with this text in place of the prompt.
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation: T >= 1 user turns, none of them blank.

    `answers`, T: the assistant's recorded reply to each turn, None where the row has none. `references`: correct
    answers as the row gives them, of any number; nothing here scores with them. `system`: the system message.
    """

    id: str
    category: str
    turns: tuple[str, ...]
    answers: tuple[str | None, ...]
    references: tuple[str, ...] = ()
    system: str | None = None


def prompt_of(row: Any, fallback_id: str, fallback_category: str) -> Prompt:
    """The prompt in a row of any known shape; raises `Malformed` for a row that holds none.

    Shapes: `turns` (texts), `conversations` / `items` / `messages` (objects with `from` and `value` or `role` and
    `content`), `prompt` (a text, texts or messages), `question`, `problem`, `instruction` with `input`, `text`, or a
    bare text. Human turns pair with the assistant's message right behind them; an answer with no turn before it is
    left out.
    """
    if isinstance(row, str):
        row = {"text": row}
    if not isinstance(row, Mapping):
        raise Malformed("is not an object", type(row).__name__)
    field = next((name for name in PROMPT_FIELDS if row.get(name) is not None), None)
    if field is None:
        raise Malformed("has no known field", f"it has {', '.join(map(str, row)) or 'none'}")
    value = row[field]
    if field == "instruction" and isinstance(value, str) and _filled(row.get("input")):
        value = f"{value}\n\n{row['input']}"
    system, turns, answers = _conversation(value)
    return Prompt(
        id=_first_text(row, _ID_FIELDS) or fallback_id,
        category=_first_text(row, ("category",)) or fallback_category,
        turns=tuple(_usable(turn) for turn in turns),
        answers=tuple(None if answer is None else _unicode(answer) for answer in answers),
        references=_references(row),
        system=system,
    )


def _conversation(value: Any) -> tuple[str | None, list[str], list[str | None]]:
    """(system message, user turns, answers) of a text, a list of texts or a list of messages."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, Mapping):  # a list of structs, as some versions of `datasets` hand it out: a struct of lists
        value = _struct_of_lists(value)
    if not isinstance(value, list | tuple):
        raise Malformed("its prompt is not text", type(value).__name__)
    if all(isinstance(turn, str) for turn in value):
        messages = [("user", turn) for turn in value]
    else:
        messages = [_message(item) for item in value]
    if not any(role == "user" for role, _ in messages):
        raise Malformed("has no user turn")
    return _paired(messages)


def _paired(messages: list[tuple[str, str]]) -> tuple[str | None, list[str], list[str | None]]:
    system: list[str] = []
    turns: list[str] = []
    answers: list[str | None] = []
    before = ""
    for role, text in messages:
        if role == "system":
            system.append(_unicode(text))
        elif role == "user":
            turns.append(text)
            answers.append(None)
        elif before == "user" and _filled(text):
            answers[-1] = text
        before = role
    return "\n\n".join(filter(_filled, system)) or None, turns, answers


def _message(item: Any) -> tuple[str, str]:
    """(user, assistant or system; text) of one message."""
    if not isinstance(item, Mapping):
        raise Malformed("a message is not an object", type(item).__name__)
    role = item.get("role") if item.get("role") is not None else item.get("from")
    text = item.get("content") if item.get("content") is not None else item.get("value")
    for name, roles in (("user", _USER), ("assistant", _ASSISTANT), ("system", _SYSTEM)):
        if isinstance(role, str) and role.lower() in roles:
            return name, _text_of(text)
    raise Malformed("a message has no known role", repr(role))


def _text_of(content: Any) -> str:
    """A message's text, also where it is given in parts; `Malformed` where a part is no text."""
    parts = content if isinstance(content, list | tuple) else [content]
    texts: list[Any] = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise Malformed("a message is not text")
    return "".join(texts)


def _struct_of_lists(value: Mapping[Any, Any]) -> list[dict[Any, Any]]:
    columns = list(value.values())
    if not columns or not all(isinstance(column, list) and len(column) == len(columns[0]) for column in columns):
        raise Malformed("its prompt is not text", "an object")
    return [dict(zip(value, entries, strict=True)) for entries in zip(*columns, strict=True)]


def _usable(turn: str) -> str:
    if not _filled(turn):
        raise Malformed("a user turn is blank")
    if _PLACEHOLDER in turn:
        raise Malformed("its text is left out upstream", "a placeholder stands there; complete the set with its script")
    return _unicode(turn)


def _unicode(text: str) -> str:
    """The text; `Malformed` where it has lone surrogates, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Malformed("a text is not valid Unicode") from None
    return text


def _references(row: Mapping[Any, Any]) -> tuple[str, ...]:
    value = next((row[name] for name in _REFERENCE_FIELDS if row.get(name) is not None), ())
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(str(entry) for entry in values if _filled(entry) or type(entry) in (int, float))


def _first_text(row: Mapping[Any, Any], fields: tuple[str, ...]) -> str | None:
    """The first of these fields that is a text or a whole number, as text."""
    for name in fields:
        value = row.get(name)
        if type(value) is int or (isinstance(value, str) and _filled(value)):
            return _unicode(str(value))
    return None


def _filled(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())
