"""`lightspec-bench traces`: list them, show one, validate, import from elsewhere, make synthetic ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List, show, validate, import and synthesize traces.", no_args_is_help=True, rich_markup_mode="markdown"
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="The Parquet file to write.")]
Spec = Annotated[str, typer.Argument(help="A shipped name or a Parquet file, with options: NAME:category=gsm8k.")]


@app.command("list")
def list_traces(json_output: Json = False) -> None:
    """The traces that ship.

    Example: `lightspec-bench traces list`
    """
    from dataclasses import asdict

    from lightspec_bench.traces.format import read_info
    from lightspec_bench.traces.library import trace_names, trace_path

    rows = []
    for name in trace_names():
        info, num_requests = read_info(trace_path(name))
        rows.append({**asdict(info), "name": name, "num_requests": num_requests})
    if json_output:
        return _print_json(rows)
    from rich.table import Column, Table

    columns = ("target", "drafter", "D", "requests", "origin", "indexed by")
    table = Table(Column("trace", no_wrap=True), *columns, box=None, header_style="bold")
    for row in rows:
        counts = str(row["max_draft_tokens"]), str(row["num_requests"])
        table.add_row(row["name"], row["target"], row["drafter_kind"], *counts, row["origin"], row["indexing"])
    _console().print(table)
    return None


@app.command()
def show(
    spec: Spec,
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw a small picture to this file.")] = None,
    json_output: Json = False,
) -> None:
    """What a trace is like: lengths, acceptance per position, heterogeneity, confidence AUC and ECE.

    Examples:

    - `lightspec-bench traces show smollm2-135m-eagle`

    - `lightspec-bench traces show smollm2-135m-ngram:loops=drop --plot ngram.png`

    - `lightspec-bench traces show 'synthetic:shape=dspark,workload=[chat,math]' --json`
    """
    from dataclasses import asdict

    from lightspec_bench.traces.describe import describe
    from lightspec_bench.traces.library import load_trace

    trace = load_trace(spec)
    description = describe(trace)
    if plot is not None:
        from lightspec_bench.traces.plot import plot_description

        plot_description(description, plot)
    if json_output:
        return _print_json({**description, "info": asdict(trace.info)})
    from lightspec_bench.cli_traces_show import print_description

    return print_description(asdict(trace.info), description, _console())


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(help="Trace files, or names of shipped traces.")],
    json_output: Json = False,
) -> None:
    """Check every invariant of trace files. Exit code 2 at the first file that breaks one.

    The message names the file, the request and the position of its first violation, and the count of all.

    Example: `lightspec-bench traces validate mine.parquet`
    """
    from lightspec_bench.traces.format import read_trace
    from lightspec_bench.traces.library import trace_path
    from lightspec_bench.traces.validate import check_trace

    valid = []
    for file in files:
        path = trace_path(file)
        trace = read_trace(path)
        check_trace(trace, str(path))
        valid.append({"file": str(path), "num_requests": trace.num_requests, "num_positions": trace.num_positions})
        if not json_output:
            print(f"{path}: valid, {trace.num_requests} requests, {trace.num_positions} positions")
    if json_output:
        _print_json(valid)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="The file to import; plain or gzip where it is text.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The Parquet file of the trace. Without it: print what was accepted."),
    ] = None,
    format_spec: Annotated[
        str | None,
        typer.Option("--format", "-f", help="jsonl, vllm-log, sglang-log, ... (docs/importers.md), or module:Class."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the trace; the output file's by default.")] = None,
    target: Annotated[str | None, typer.Option(help="The target model.")] = None,
    drafter: Annotated[str | None, typer.Option(help="The drafter.")] = None,
    drafter_kind: Annotated[
        str | None, typer.Option(help="autoregressive, autoregressive_no_attention, parallel or ngram.")
    ] = None,
    max_draft_tokens: Annotated[int | None, typer.Option(help="Draft tokens recorded at every position.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Where the prompts are from.")] = None,
    sampling: Annotated[str | None, typer.Option(help="How the target sampled: greedy, temperature 1, ...")] = None,
    indexing: Annotated[str | None, typer.Option(help="position (every output position) or step.")] = None,
    made_by: Annotated[str | None, typer.Option(help="How the trace was recorded.")] = None,
    licence: Annotated[str | None, typer.Option(help="Terms the trace may be passed on under.")] = None,
    json_output: Json = False,
) -> None:
    """Read what another engine recorded: a trace with --out, what it tells of acceptance without.

    The format is recognised unless --format names it, with its options if it has some. Metadata options win over
    what the file says; one that neither has is asked for. What a source does not tell is shown as unknown; lines
    that cannot be read are counted, those around them kept.

    Examples:

    - `lightspec-bench traces import vllm.log`

    - `lightspec-bench traces import sglang.log --format sglang-log:num_draft_tokens=4 --json`

    - `lightspec-bench traces import mine.jsonl.gz -o mine.parquet`

    - `lightspec-bench traces import log.jsonl -o log.parquet --target Qwen3-14B --drafter eagle3
      --drafter-kind autoregressive --max-draft-tokens 7`

    - `lightspec-bench traces import combined_gsm8k.jsonl -o gsm8k.parquet --format specdecode-bench:drafter=ngram
      --target Llama-3.1-8B-Instruct`
    """
    from lightspec_bench.traces.format import write_trace
    from lightspec_bench.traces.importer import import_trace

    if out is None:
        return _print_acceptance(file, format_spec, json_output)
    options = {
        "name": name or out.stem, "target": target, "drafter": drafter, "drafter_kind": drafter_kind,
        "max_draft_tokens": max_draft_tokens, "dataset": dataset, "sampling": sampling, "indexing": indexing,
        "made_by": made_by, "licence": licence,
    }  # fmt: skip
    trace = import_trace(file, format_spec, {key: value for key, value in options.items() if value is not None})
    write_trace(trace, out)
    return _report(out, trace, json_output)


def _print_acceptance(file: Path, format_spec: str | None, json_output: bool) -> None:
    from lightspec_bench.acceptance_summary import document
    from lightspec_bench.traces.importer import import_summary

    summary = import_summary(file, format_spec)
    if json_output:
        return _print_json(document(summary))
    from lightspec_bench.cli_import_show import print_summary

    return print_summary(summary, _console())


@app.command()
def synth(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The Parquet file to write.")] = None,
    options: Annotated[list[str] | None, typer.Argument(help="Dials as key=value; see --dials.")] = None,
    dials: Annotated[bool, typer.Option("--dials", help="Print every dial with its default and stop.")] = False,
    json_output: Json = False,
) -> None:
    """Make a synthetic trace; the same dials and seed give the same trace.

    Acceptance per position, AUC, ECE and bias of the confidences are met by calibration. The trace and every number
    from it are labelled modelled.

    Examples:

    - `lightspec-bench traces synth -o chat.parquet shape=eagle3 max_draft_tokens=11`

    - `lightspec-bench traces synth -o shift.parquet 'workload=[chat,code,math]' order=requests arrivals_per_s=20`

    - `lightspec-bench traces synth -o own.parquet 'acceptance=[0.8,0.7,0.6]' max_draft_tokens=3 auc=0.75 seed=7`
    """
    from lightspec_bench.traces.format import write_trace
    from lightspec_bench.traces.library import SYNTHETIC, load_trace

    if dials:
        return _print_dials()
    if out is None:
        raise typer.BadParameter("expected a file to write", param_hint="--out")
    trace = load_trace(f"{SYNTHETIC}:{','.join(options or [])}")
    write_trace(trace, out)
    return _report(out, trace, json_output)


def _print_dials() -> None:
    import inspect

    from lightspec_bench.traces.synthetic import Dials

    print(inspect.getdoc(Dials))
    print()
    for name, parameter in inspect.signature(Dials).parameters.items():
        print(f"  {name}={parameter.default}  ({parameter.annotation})")


def _report(path: Path, trace: Any, json_output: bool) -> None:
    size = path.stat().st_size
    if json_output:
        found = {"num_requests": trace.num_requests, "num_positions": trace.num_positions, "num_bytes": size}
        _print_json({"file": str(path), "name": trace.info.name, **found})
    else:
        print(f"{path}: {trace.num_requests} requests, {trace.num_positions} positions, {size / 1e6:.2f} MB")
        if trace.info.indexing == "step":
            print("approximate: only positions that were visited, outcomes censored at what was verified there")
            print(f"made by: {trace.info.made_by}")


def _console() -> Any:
    from rich.console import Console

    return Console()


def _print_json(document: Any) -> None:
    import json

    print(json.dumps(document))
