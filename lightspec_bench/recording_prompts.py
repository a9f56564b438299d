"""Which prompts a recording or a real run takes: sources, how many of each, and the very ones of an existing trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.traces.library import load_trace
from lightspec_bench.traces.prompts import Prompt, PromptSet, load_prompts
from lightspec_bench.traces.prompts_requests import PromptRequest, requests_of


@dataclass(frozen=True, slots=True)
class PromptChoice:
    """Sources as `--prompts` names them; `num_prompts` is drawn from each with `seed`. `same_as` names a trace whose
    requests are taken, by id and in their order, instead of a draw. Prompts of more than `max_prompt_tokens` are left
    out, and counted."""

    sources: tuple[str, ...]
    num_prompts: int | None = None
    seed: int = 0
    chat_template: bool = True
    multi_turn: bool = True
    same_as: str | None = None
    max_prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Prompts:
    """Requests to decode, and what was left out: rows of the sources that could not be used, prompts too long."""

    requests: tuple[PromptRequest, ...]
    num_skipped: int
    num_too_long: int
    notes: tuple[str, ...]
    licences: str


def read_prompts(choice: PromptChoice, tokenizer: Any, max_positions: int | None) -> Prompts:
    """The requests of a choice. Raises `BenchError` where there is none, or ids are not unique or not found."""
    if not choice.sources:
        raise BenchError("no prompts are named, expected at least one source")
    wanted = None if choice.same_as is None else _requests_of_trace(choice.same_as)
    sets = [load_prompts(source, None if wanted else choice.num_prompts, choice.seed) for source in choice.sources]
    prompts = _chosen(sets, wanted)
    found = requests_of(prompts, tokenizer, choice.chat_template, choice.multi_turn)
    if wanted is not None:
        found = _in_order(found, wanted, choice)
    _check_unique(found)
    most = min(value for value in (choice.max_prompt_tokens, (max_positions or 1 << 62) - 1) if value is not None)
    fitting = tuple(request for request in found if len(request.token_ids) <= most)
    if not fitting:
        raise BenchError(
            f"{len(found)} requests have more than {most} prompt tokens each, expected at least one shorter"
        )
    return Prompts(
        requests=fitting,
        num_skipped=sum(part.num_skipped for part in sets),
        num_too_long=len(found) - len(fitting),
        notes=tuple(note for part in sets for note in part.notes),
        licences="; ".join(dict.fromkeys(f"{part.name} {part.licence}" for part in sets)),
    )


def _requests_of_trace(spec: str) -> dict[str, str]:
    """Category by id, in the trace's order."""
    trace = load_trace(spec)
    return dict(zip(trace.request_id.tolist(), trace.category.tolist(), strict=True))


def _chosen(sets: Sequence[PromptSet], wanted: Mapping[str, str] | None) -> list[Prompt]:
    """All prompts, or those whose id, or SET-ID, a trace names; that name is then theirs."""
    if wanted is None:
        return [prompt for part in sets for prompt in part.prompts]
    ids = {*wanted, *(name.rpartition("#")[0] for name in wanted)}
    named = [(name, prompt) for part in sets for prompt in part.prompts for name in _names(part, prompt)]
    return [replace(prompt, id=name) for name, prompt in named if name in ids]


def _names(part: PromptSet, prompt: Prompt) -> tuple[str, str]:
    return prompt.id, f"{part.name}-{prompt.id}"


def _in_order(found: Sequence[PromptRequest], wanted: Mapping[str, str], choice: PromptChoice) -> list[PromptRequest]:
    by_id = {request.id: request for request in found}
    missing = [name for name in wanted if name not in by_id]
    if missing:
        raise BenchError(
            f"{len(missing)} of the {len(wanted)} requests of trace {choice.same_as} are in none of "
            f"{', '.join(choice.sources)}, the first is {missing[0]!r}"
        )
    return [replace(by_id[name], category=category) for name, category in wanted.items()]


def _check_unique(found: Sequence[PromptRequest]) -> None:
    seen: set[str] = set()
    for request in found:
        if request.id in seen:
            raise BenchError(f"request {request.id!r} comes from two of the sources, expected ids to be unique")
        seen.add(request.id)
