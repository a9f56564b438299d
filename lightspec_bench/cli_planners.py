"""`lightspec-bench planners`: list them, show one, check one."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

app = typer.Typer(help="List, show and check planners.", no_args_is_help=True, rich_markup_mode="markdown")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]
Name = Annotated[str, typer.Argument(help="A name from `planners list`, or module:Class.")]


@app.command("list")
def list_planners(json_output: Json = False) -> None:
    """Every planner, ours and installed ones: what it does, and how old the confidences it reads may be.

    Example: `lightspec-bench planners list`
    """
    from lightspec_bench.names import SECTIONS
    from lightspec_bench.registry import names

    sections = {section: list(planners) for section, planners in SECTIONS.items()}
    installed = set(names("planner")) - {name for planners in sections.values() for name in planners}
    if installed:
        sections["installed"] = sorted(installed)
    rows = {section: [_listed(section, name) for name in planners] for section, planners in sections.items()}
    if json_output:
        _print_json([row for listed in rows.values() for row in listed])
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("planner", "confidences", "what it does", box=None, header_style="bold")
    for section, listed in rows.items():
        table.add_row(f"[bold]{section}[/bold]")
        for row in listed:
            table.add_row(f"  {row['name']}", row.get("confidence", ""), row.get("summary", row.get("error")))
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)


def _listed(section: str, name: str) -> dict[str, Any]:
    """A planner's description; an installed one that is broken does not hide the others."""
    from lightspec_bench.describe import describe
    from lightspec_bench.errors import BenchError

    try:
        return {"section": section, **describe(name).document}
    except BenchError as error:
        return {"section": section, "name": name, "error": str(error)}


@app.command()
def show(name: Name, json_output: Json = False) -> None:
    """A planner's rule and source, its options with types and defaults, and what information it needs and how old.

    NAME may set options: what it reads can depend on them.

    Examples:

    - `lightspec-bench planners show lightspec-reference`

    - `lightspec-bench planners show "clamp:most=4,planner=dspark"`
    """
    from lightspec_bench.describe import AGES, describe

    described = describe(name)
    if json_output:
        _print_json(described.document)
        return
    text = f"{described.module}\n\n{described.rule}" if described.module else described.rule
    print(f"{described.name}\n\n{text}\n")
    print(f"class        {described.target}")
    print(f"confidences  {AGES[described.confidence]}")
    print(f"requires     {described.needs}")
    print(f"drafter      {'loaded' if described.uses_drafter else 'none is loaded'}")
    print("options" if described.options else "options      none")
    for option in described.options:
        default = "required" if option.required else f"default {option.default}"
        given = f", given {described.given[option.name]}" if option.name in described.given else ""
        print(f"  {option.name}: {option.type_name}, {default}{given}")


@app.command()
def check(name: Name, json_output: Json = False) -> None:
    """Check that a planner keeps the rules: bounds, determinism, no peeking at outcomes, no mutation.

    Exit code 1 when it does not. Example: `lightspec-bench planners check my_package.planner:MyPlanner`
    """
    from lightspec_bench.conformance import check_planner
    from lightspec_bench.errors import GateError

    findings = check_planner(name)
    if json_output:
        _print_json({"planner": name, "findings": findings})
    elif not findings:
        print(f"{name}: sound")
    if findings:
        raise GateError(f"planner {name} breaks {len(findings)} rules: " + "; ".join(findings))


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document, default=str))
