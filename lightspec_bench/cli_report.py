"""`report`: tables, pictures and pages of finished runs again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lightspec_bench.results import ReportOptions

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]


def report(
    folder: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Results folders of `run` or `replay --out`.")],
    all_static: Annotated[bool, typer.Option("--all-static", help="Show every static K, and every table.")] = False,
    current: Annotated[
        str | None,
        typer.Option("--current", help="What your engine runs now: a K, or a planner of the run. Else the deepest K."),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=1, help="GPUs that one engine runs on; what the latency model says by default."),
    ] = None,
    slo: Annotated[
        list[str] | None, typer.Option("--slo", help="Bounds of a request, ttft_ms=500,tpot_ms=30: adds goodput.")
    ] = None,
    theme: Annotated[str, typer.Option("--theme", help="Of the picture files: default, paper or dark.")] = "default",
    markdown: Annotated[bool, typer.Option("--md", help="Print the tables as Markdown.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the cells as CSV, exact numbers.")] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print the tables as LaTeX, for the package booktabs.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Make the tables, pictures (PNG and SVG) and report.html of finished runs again, each in its own folder.

    Examples:

    - `lightspec-bench report runs/2026-11-29T12-00-00 --current 5`

    - `lightspec-bench report runs/mine --theme paper --latex`
    """
    from lightspec_bench.core import BenchError
    from lightspec_bench.results import ReportOptions
    from lightspec_bench.slo import request_slo

    asked = {"--md": markdown, "--csv": csv, "--latex": latex, "--json": json_output}
    chosen = [name for name, wanted in asked.items() if wanted]
    if len(chosen) > 1:
        raise BenchError(f"{' and '.join(chosen)} were given, expected one of them")
    bounds = request_slo(slo) if slo else None
    report_command(folder, all_static, ReportOptions(current, theme, gpus, bounds), chosen[0] if chosen else "")


def report_command(folders: list[Path], all_static: bool, options: ReportOptions, form: str) -> None:
    """Report finished runs again; `form` is "" for tables of a terminal, or the option that asks for another."""
    from lightspec_bench.cli_run import show_results
    from lightspec_bench.reports.text_tables import as_csv, as_latex, as_markdown
    from lightspec_bench.results import document, make_results

    results = [(folder, make_results(folder, options)) for folder in folders]
    if form == "--json":
        print(json.dumps([document(folder, made) for folder, made in results]))
        return
    texts = {"--md": as_markdown, "--csv": as_csv, "--latex": as_latex}
    for folder, made in results:
        if form:
            print(texts[form](made.comparison, all_static), end="")
        else:
            show_results(folder, made, all_static, False)
