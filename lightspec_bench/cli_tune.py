"""The command `tune`: the best setting for an engine, in that engine's own syntax."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lightspec_bench.tune import Found

_NAMED: Any = {"rich_help_panel": "Names that go into the text"}
_SIMULATED: Any = {"rich_help_panel": "The simulated engine"}


def tune(
    trace: Annotated[
        list[str],
        typer.Argument(metavar="TRACE...", help="Traces of one drafter: names or files, NAME:category=gsm8k."),
    ],
    latency: Annotated[str, typer.Option("--latency", "-l", help="A shipped latency model or a CSV file.")],
    engine: Annotated[
        str, typer.Option("--engine", "-e", help="vllm, sglang, tensorrt-llm, lightllm, hf or llama.cpp.")
    ],
    engine_version: Annotated[
        str | None, typer.Option("--engine-version", help="tensorrt-llm needs it; of llama.cpp the year.")
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option("--concurrency", "-c", help="1-256 (powers of two) or 1,8,64; 1-256, hf 1, llama.cpp 1-8."),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            "--slo", help="Bound to keep, such as tpot_ms=30 (99th percentile) or e2el_p50_ms=900; repeat it."
        ),
    ] = None,
    current: Annotated[
        str | None, typer.Option("--current", help="What you run today, such as static:k=5, to be held against.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write the configuration to this file.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show every setting and every cell.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Every other load, fewer requests, no refinement.")] = False,
    method: Annotated[str | None, typer.Option("--method", help="The drafter's name in the engine.", **_NAMED)] = None,
    draft_model: Annotated[str | None, typer.Option("--draft-model", help="The drafter's model.", **_NAMED)] = None,
    num_requests: Annotated[
        int | None,
        typer.Option("--num-requests", min=1, help="Per cell, at least 4 per place; 48.", **_SIMULATED),
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option("--seed", min=0, help="Order of the requests; repeat it.", **_SIMULATED)
    ] = None,
    prefill: Annotated[str, typer.Option("--prefill", help="off, separate or chunked.", **_SIMULATED)] = "off",
    planner_time: Annotated[
        str, typer.Option("--planner-time", help="off: planners are free, exact repeats; measured.", **_SIMULATED)
    ] = "off",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; every core by default.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")] = False,
) -> None:
    """Search static K, batch-size schedules and an engine's own adaptive options in the simulator, and print the best
    setting in the engine's syntax, with the gain to expect.

    Of settings that are level (within 1 %, or within the interval) the simpler one is chosen: no speculation, then the
    smaller K, then a schedule, then an adaptive option. Several traces are a mix, each counting the same. Exit code 1
    when no setting keeps the SLO anywhere.

    Examples:

    - `lightspec-bench tune smollm2-135m-eagle -l h200-qwen3-14b --engine vllm`

    - `lightspec-bench tune mine.parquet -l mine.csv -e tensorrt-llm --engine-version 1.2.0 -c 1-64 --slo tpot_ms=30`

    - `lightspec-bench tune chat.parquet code.parquet -l mine.csv -e sglang --current static:k=5 --out adaptive.json`
    """
    import os
    import tempfile

    from lightspec_bench.cell_run import cached_trace
    from lightspec_bench.progress import Bars
    from lightspec_bench.reports.export import check_engine
    from lightspec_bench.reports.export_text import Deployment
    from lightspec_bench.suite import Conditions
    from lightspec_bench.tune import tune as search
    from lightspec_bench.tune_task import Task, loads_of, parse_bounds

    check_engine(engine)
    loads = loads_of(engine, concurrency)
    conditions = Conditions(
        num_requests=num_requests or (16 if quick else 48), prefill=prefill, planner_time=planner_time
    )
    task = Task(
        traces=tuple(dict.fromkeys(trace)),
        latency=latency,
        engine=engine,
        deployment=Deployment(cached_trace(trace[0]).info.drafter_kind, engine_version, method, draft_model),
        loads=tuple(sorted({*loads[::2], loads[-1]})) if quick else loads,
        seeds=tuple(dict.fromkeys(seed or [0])),
        bounds=parse_bounds(slo or [], prefill),
        current=current,
        refine=0 if quick else 2,
        conditions=conditions,
    )
    with tempfile.TemporaryDirectory() as folder, Bars() as bars:
        found = search(task, Path(folder), jobs or os.cpu_count() or 1, bars.report)
    raise typer.Exit(show(found, out, explain, json_output))


def show(found: Found, out: Path | None, explain: bool, json_output: bool) -> int:
    """Print what was found and write it to `out`; 1 where no setting keeps the bounds anywhere."""
    import json

    from lightspec_bench.tune_report import document, export_of

    made = export_of(found)
    if out is not None and made is not None and made.text:
        from lightspec_bench.files import write_atomically

        write_atomically(out, lambda path: path.write_text(made.text + "\n", encoding="utf-8"))
    if json_output:
        print(json.dumps(document(found)))
    else:
        _show_text(found, out, explain)
    return int(made is None)


def _show_text(found: Found, out: Path | None, explain: bool) -> None:
    import sys

    from rich.console import Console

    from lightspec_bench.tune_report import (
        bound_lines,
        change_lines,
        export_of,
        gain_lines,
        headline,
        losing_line,
    )
    from lightspec_bench.tune_tables import candidate_table, cell_table, load_table

    console = Console() if sys.stdout.isatty() else Console(width=160)

    def say(*lines: str) -> None:
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)

    made = export_of(found)
    say(headline(found), *bound_lines(found))
    if made is not None:
        if made.text:
            say("", made.text, "")
        say(f"Use: {made.usage.replace('FILE', str(out) if out is not None else 'FILE')}")
        say(*(f"- {note}" for note in (*made.notes, *found.notes)))
        if out is not None:
            say(f"written: {out}" if made.text else f"{out}: not written, there is nothing to set")
    say("", *gain_lines(found), *losing_line(found), "", *change_lines(found), "")
    console.print(load_table(found))
    if explain:
        console.print(candidate_table(found))
        console.print(cell_table(found))
    say(*(f"left out: {reason}" for reason in found.skipped))
