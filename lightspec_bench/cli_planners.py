"""`lightspec-bench planners`: list them, show one, check one."""

from __future__ import annotations

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
    from lightspec_bench.registry import names

    described = [_describe(name) for name in names("planner")]
    if json_output:
        _print_json(described)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("planner", "confidences", "what it does", box=None, header_style="bold")
    for row in described:
        table.add_row(row["name"], row["confidence"], row["summary"])
    Console().print(table)


@app.command()
def show(name: Name, json_output: Json = False) -> None:
    """A planner's rule and source, its options with types and defaults, and what information it needs.

    Example: `lightspec-bench planners show lightspec-reference`
    """
    row = _describe(name)
    if json_output:
        _print_json(row)
        return
    print(f"{row['name']}\n\n{row['rule']}\n")
    print(f"class        {row['class']}")
    print(f"confidences  {_AGES[row['confidence']]}")
    print(f"requires     {', '.join(row['requires']) or 'nothing of the trace'}")
    print("options" if row["options"] else "options      none")
    for option in row["options"]:
        default = "required" if option["required"] else f"default {option['default']}"
        print(f"  {option['name']}: {option['type']}, {default}")


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


_AGES = {
    "none": "reads none",
    "lagged": "reads those the pipeline has: one step old under lag",
    "current": "waits for those of the pending proposals",
}


def _describe(name: str) -> dict[str, Any]:
    import inspect

    from lightspec_bench.registry import options_of, parse_spec, resolve

    cls = resolve("planner", parse_spec(name)[0])
    documented = cls if cls.__doc__ else inspect.getmodule(cls)
    rule = inspect.getdoc(documented) or ""
    return {
        "name": name,
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "summary": rule.partition("\n")[0],
        "rule": rule,
        "confidence": cls.confidence,
        "requires": sorted(cls.requires),
        "options": [
            {
                "name": option.name,
                "type": option.type_name,
                "default": None if option.required else option.default,
                "required": option.required,
            }
            for option in options_of(cls).values()
        ],
    }


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document, default=str))
