"""What `traces show` prints: the description of a trace as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

_SHORT = {"confidence": "conf", "entropy": "entr"}


def print_description(info: dict[str, Any], description: dict[str, Any], console: Console) -> None:
    """Metadata, lengths, heterogeneity and the figures per draft position."""
    approximate = ", approximate" if info["indexing"] == "step" else ""
    console.print(f"[bold]{info['name']}[/bold] ({info['origin']}, {info['indexing']}-indexed{approximate})")
    facts = Table(box=None, show_header=False, pad_edge=False)
    for label, value in (*_facts(info), *_figures(description)):
        facts.add_row(label, value)
    console.print(facts)
    console.print(_categories(description))
    console.print(_per_position(description))
    console.print(
        f"Rates are over {description['num_counted_positions']} positions (placeholder and ends left out); served "
        "survival: over the steps of a static drafter that verifies all D."
    )


def _facts(info: dict[str, Any]) -> list[tuple[str, str]]:
    keys = ("target", "drafter", "drafter_kind", "max_draft_tokens", "dataset", "sampling", "made_by", "licence")
    return [(key.replace("_", " "), str(info[key])) for key in keys]


def _figures(d: dict[str, Any]) -> list[tuple[str, str]]:
    served = d["served"]
    return [
        ("requests", f"{d['num_requests']}, {d['num_looping_requests']} of them fall into a loop"),
        ("positions", str(d["num_positions"])),
        ("prompt tokens", _range(d["num_prompt_tokens"])),
        ("output tokens", _range(d["num_output_tokens"])),
        ("mean accepted + 1", f"{_number(d['mean_accepted_plus_one'], 2)} over all positions"),
        ("mean acceptance length", f"{_number(served['mean_acceptance_length'], 2)} served"),
        (
            "variance of accepted + 1",
            f"{_number(served['within_request_variance'], 2)} within requests, "
            f"{_number(served['between_request_variance'], 2)} between, lag-1 {_number(served['lag_1'], 2)}",
        ),
    ]


def _categories(description: dict[str, Any]) -> Table:
    table = Table("category", "requests", "mean accepted + 1", box=None, header_style="bold")
    for name, row in description["categories"].items():
        table.add_row(name, str(row["num_requests"]), _number(row["mean_accepted_plus_one"], 2))
    return table


def _per_position(description: dict[str, Any]) -> Table:
    columns = {
        "survival": description["acceptance_rate_per_pos"],
        "given prefix": description["conditional_acceptance_rate_per_pos"],
        "served": description["served"]["acceptance_rate_per_pos"],
    }
    for signal in ("confidence", "entropy"):
        for key, values in (description[signal] or {}).items():
            columns[f"{_SHORT[signal]} {key.upper() if key != 'bias' else key}"] = values
    table = Table("draft token", *columns, box=None, header_style="bold")
    for k in range(description["max_draft_tokens"]):
        table.add_row(str(k + 1), *(_number(values[k], 3) for values in columns.values()))
    return table


def _range(spread: dict[str, float]) -> str:
    return f"mean {spread['mean']:.0f}, p5 {spread['p5']:.0f}, p50 {spread['p50']:.0f}, p95 {spread['p95']:.0f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
