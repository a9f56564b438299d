"""`lightspec-bench latency`: list the tables that ship, make one of a profile that others measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="List and import latency tables.", no_args_is_help=True, rich_markup_mode="markdown")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]
_VIDUR: Any = {"rich_help_panel": "vidur CSV"}
_ITL: Any = {"rich_help_panel": "ITL per batch size (ML.ENERGY JSON)"}


@app.command("list")
def list_tables(json_output: Json = False) -> None:
    """The latency tables that ship.

    Example: `lightspec-bench latency list`
    """
    from lightspec_bench.latency_file import describe_latency, latency_names

    rows = [describe_latency(name) for name in latency_names()]
    if json_output:
        return _print_json(rows)
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(Column("latency", no_wrap=True), "origin", "device", "model", box=None, header_style="bold")
    for row in rows:
        table.add_row(row["name"], row["origin"], row["device"], row["model"])
    Console().print(table)
    return None


@app.command("import")
def import_table(
    file: Annotated[Path, typer.Argument(help="A vidur mlp.csv, or a JSON of inter-token latency per batch size.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The latency file to write, for --latency.")],
    format_name: Annotated[str | None, typer.Option("--format", "-f", help="vidur or itl.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Layers of the model.", **_VIDUR)] = None,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="Workers whose rows count.", **_VIDUR)] = 1,
    tb_per_s: Annotated[
        float | None, typer.Option(help="Memory bandwidth, to estimate output matrix and KV reads.", **_VIDUR)
    ] = None,
    tflops: Annotated[float | None, typer.Option(help="Peak of the device, for the same.", **_VIDUR)] = None,
    gpu: Annotated[str | None, typer.Option(help="Pick a gpu_model.", **_ITL)] = None,
    num_gpus: Annotated[int | None, typer.Option(help="Pick a number of GPUs.", **_ITL)] = None,
    name: Annotated[str | None, typer.Option(help="Name of the table; the output file's by default.")] = None,
    device: Annotated[str | None, typer.Option(help="The device, where the file does not say.")] = None,
    model: Annotated[str | None, typer.Option(help="The model.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Number format of the weights.")] = None,
    engine: Annotated[str | None, typer.Option(help="The engine that was measured.")] = None,
    date: Annotated[str | None, typer.Option(help="When: YYYY, YYYY-MM or YYYY-MM-DD.")] = None,
    source: Annotated[str | None, typer.Option(help="Where the figures are from.")] = None,
    licence: Annotated[str | None, typer.Option(help="Terms of the figures.")] = None,
    host_step_ms: Annotated[float | None, typer.Option(help="Host time of a step.")] = None,
    host_request_us: Annotated[float | None, typer.Option(help="Host time per request.")] = None,
    draft_fixed_ms: Annotated[float | None, typer.Option(help="A drafter pass: fixed time.")] = None,
    draft_us_per_row: Annotated[float | None, typer.Option(help="A drafter pass: per row.")] = None,
    draft_us_per_context_token: Annotated[float | None, typer.Option(help="A drafter pass: per context token.")] = None,
    json_output: Json = False,
) -> None:
    """Make a latency table of a profile that others measured; what the profile lacks is said in its note.

    Examples:

    - `lightspec-bench latency import mlp.csv -o h100.csv --layers 60 --device 'NVIDIA H100' --model InternLM-20B
      --date 2024 --tb-per-s 2.75 --tflops 730 --draft-fixed-ms 0.6 --draft-us-per-row 2 --draft-us-per-context-token 0`

    - `lightspec-bench latency import Qwen__Qwen3-14B__lm-arena-chat.json -o qwen.csv --gpu H100 --date 2025
      --engine vLLM --draft-fixed-ms 0.4 --draft-us-per-row 1.5 --draft-us-per-context-token 0`
    """
    from dataclasses import asdict

    from lightspec_bench.latency_import import import_latency

    options = {
        "layers": layers, "tensor_parallel": tensor_parallel, "tb_per_s": tb_per_s, "tflops": tflops, "gpu": gpu,
        "num_gpus": num_gpus, "name": name, "device": device, "model": model, "dtype": dtype, "engine": engine,
        "date": date, "source": source, "licence": licence, "host_step_ms": host_step_ms,
        "host_request_us": host_request_us, "draft_fixed_ms": draft_fixed_ms, "draft_us_per_row": draft_us_per_row,
        "draft_us_per_context_token": draft_us_per_context_token,
    }  # fmt: skip
    found = import_latency(file, out, format_name, options)
    if json_output:
        return _print_json({"file": str(out), **asdict(found)})
    print(f"{out}: {len(found.points)} sizes, {found.points[0].rows} to {found.points[-1].rows} rows")
    for note in found.notes:
        print(f"note: {note}")
    return None


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document))
