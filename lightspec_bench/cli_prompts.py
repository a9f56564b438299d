"""`lightspec-bench prompts`: list the sets known by name, show what is in one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

app = typer.Typer(help="List and show sets of prompts.", no_args_is_help=True, rich_markup_mode="markdown")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]


@app.command("list")
def list_prompts(json_output: Json = False) -> None:
    """The sets known by a short name: those that ship, and those that are read from elsewhere.

    Example: `lightspec-bench prompts list`
    """
    from lightspec_bench.traces.prompts_sets import SETS, local_file

    rows = [
        {"name": name, "local": local_file(name) is not None, "source": hub.address, "licence": hub.licence}
        for name, hub in SETS.items()
    ]
    if json_output:
        return _print_json(rows)
    from rich.table import Column, Table

    columns = Column("prompts", no_wrap=True), "read from", "licence", Column("origin", overflow="fold")
    table = Table(*columns, box=None, header_style="bold")
    for row in rows:
        place = "this machine" if row["local"] else "the network"
        table.add_row(str(row["name"]), place, str(row["licence"]), str(row["source"]))
    _console().print(table)
    return None


@app.command()
def show(
    source: Annotated[
        str, typer.Argument(help="A short name, a JSON, JSONL or Parquet file, a folder, or OWNER/NAME.")
    ],
    num_prompts: Annotated[int, typer.Option("--num-prompts", "-n", min=0, help="Prompts to print.")] = 3,
    json_output: Json = False,
) -> None:
    """How many prompts a source has, what was skipped and why, and the first few.

    Examples:

    - `lightspec-bench prompts show mt_bench`

    - `lightspec-bench prompts show ShareGPT_V3_unfiltered_cleaned_split.json --num-prompts 1`

    - `lightspec-bench prompts show openai/gsm8k:config=main,split=test --json`
    """
    from collections import Counter
    from dataclasses import asdict

    from lightspec_bench.traces.prompts import load_prompts

    found = load_prompts(source)
    categories = dict(Counter(prompt.category for prompt in found.prompts))
    turns = sum(len(prompt.turns) for prompt in found.prompts)
    if json_output:
        document = {key: value for key, value in asdict(found).items() if key != "prompts"}
        counts = {"num_prompts": len(found.prompts), "num_turns": turns, "num_skipped": found.num_skipped}
        shown = [asdict(prompt) for prompt in found.prompts[:num_prompts]]
        return _print_json({**document, **counts, "categories": categories, "prompts": shown})
    return _print_set(found, turns, categories, num_prompts)


def _print_set(found: Any, turns: int, categories: dict[str, int], num_prompts: int) -> None:
    print(f"{found.name}: {len(found.prompts)} prompts, {turns} user turns, {found.num_skipped} rows skipped")
    print(f"  {found.source}; licence: {found.licence}")
    print(f"  categories: {', '.join(f'{name} {count}' for name, count in categories.items())}")
    for part in found.skipped:
        print(f"  skipped {part.count}: {part.reason} (first: {part.first})")
    for note in found.notes:
        print(f"  note: {note}")
    for prompt in found.prompts[:num_prompts]:
        print(f"\n{prompt.id} ({prompt.category})")
        for turn in prompt.turns:
            print(f"  > {_shortened(turn)}")


def _shortened(text: str, limit: int = 300) -> str:
    """One line that cannot move the cursor or change colours."""
    line = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    return line if len(line) <= limit else f"{line[:limit]}... ({len(text)} characters)"


def _console() -> Any:
    from rich.console import Console

    return Console()


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document))
