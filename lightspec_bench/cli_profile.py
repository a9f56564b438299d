"""`lightspec-bench profile`: time this device and write a latency table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from lightspec_bench.cli_record import Engine, GraphSizes, check_runner, only_torch

Default = TypeVar("Default")


def profile(
    out: Annotated[Path, typer.Option("--out", "-o", help="The latency table to write (CSV).")],
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="smollm2, a checkpoint folder or a hub name.")
    ] = None,
    architecture: Annotated[
        str | None, typer.Option("--architecture", help="A published shape instead, such as qwen3-14b.")
    ] = None,
    dummy_weights: Annotated[
        bool, typer.Option("--dummy-weights", help="Random weights, which --architecture is timed with.")
    ] = False,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter",
            "-d",
            help="As in record; with --architecture also eagle or parallel, a head of random weights.",
        ),
    ] = None,
    max_draft_tokens: Annotated[
        int | None, typer.Option("--max-draft-tokens", "-k", min=1, help="D; 8, or a head's slots, by default.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Rows of a step: 1-4,8,16-64/16, the captured sizes by default where there are any. The number of "
            "requests is always among them."
        ),
    ] = None,
    requests: Annotated[str | None, typer.Option(help="Requests of a step: 1,8,32.")] = None,
    contexts: Annotated[str | None, typer.Option(help="Context tokens per request: 256,1024.")] = None,
    max_context: Annotated[
        int | None, typer.Option("--max-context", min=1, help="Leave out batches of more context tokens.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Steps per shape, of which the median counts.")] = 5,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    graph_sizes: GraphSizes = None,
    runner: Annotated[str, typer.Option(help="torch, or vllm: a table from steps that its engine serves.")] = "torch",
    engine: Engine = None,
    name: Annotated[str | None, typer.Option(help="Name of the table; the file's by default.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")] = False,
) -> None:
    """Measure what a step costs on this device, by rows, requests and context, and write it as a latency table.

    Steps are the engine's own: verifying with acceptance, and drafting. Host time comes from short real runs. With
    --architecture the published shape is built with random weights: what a pass costs does not depend on them.

    Examples:

    - `lightspec-bench profile --target smollm2 --drafter smollm2-135m-eagle -o mine.csv`

    - `lightspec-bench profile --architecture qwen3-14b --dummy-weights --drafter eagle --dtype bfloat16 --device cuda \
-o h200.csv`

    - `lightspec-bench profile --runner vllm --drafter ngram --requests 1,8,32 --contexts 64,512 -o vllm.csv`
    """
    from lightspec_bench.errors import BenchError

    check_runner(runner, engine)
    if runner == "vllm":
        only_torch({"architecture": architecture, "rows": rows, "max-context": max_context, "graph-sizes": graph_sizes})
        from lightspec_bench.profiling_served import CONTEXTS as PROMPTS, REQUESTS as NUMBERS, ServedProfileJob

        sizes = _sizes(requests, "requests", NUMBERS), _sizes(contexts, "contexts", PROMPTS)
        served = ServedProfileJob(
            out,
            target or "smollm2",
            drafter,
            max_draft_tokens,
            *sizes,
            dtype=dtype,
            device=device,
            engine=engine,
            name=name,
        )
        _print_served(served, json_output)
        return
    if architecture is not None and not dummy_weights:
        raise BenchError(
            "--architecture is timed with random weights: add --dummy-weights, or give --target a checkpoint"
        )
    if architecture is None and dummy_weights:
        raise BenchError("--dummy-weights has no shape to build, expected --architecture as well")
    from lightspec_bench.profiling import CONTEXTS, REQUESTS, ProfileJob

    job = ProfileJob(
        out=out,
        target=target if target or architecture else "smollm2",
        architecture=architecture,
        drafter=drafter,
        max_draft_tokens=max_draft_tokens,
        rows=_sizes(rows, "rows", None),
        requests=_sizes(requests, "requests", REQUESTS),
        contexts=_sizes(contexts, "contexts", CONTEXTS),
        repeats=repeats,
        dtype=dtype,
        device=device,
        max_context=max_context,
        name=name,
        graph_sizes=graph_sizes,
    )
    _print(job, _profiled(job), json_output)


def _print_served(job: Any, json_output: bool) -> None:
    from lightspec_bench.bench import needs_torch
    from lightspec_bench.progress import Bars

    with needs_torch("a profile", "vllm"), Bars() as bars:
        from lightspec_bench.profiling_served import profile_served, served_document

        found = profile_served(job, bars.report)
    _show(found, job.out, served_document(found, job.out) if json_output else None)


def _sizes(text: str | None, what: str, default: Default) -> tuple[int, ...] | Default:
    from lightspec_bench.latency_file import parse_sizes

    return default if text is None else tuple(parse_sizes(text, f"--{what}").tolist())


def _profiled(job: Any) -> Any:
    """Profile with progress on stderr, where that is a terminal."""
    from lightspec_bench.profiling import profile as profile_job
    from lightspec_bench.progress import Bars

    with Bars() as bars:
        return profile_job(job, bars.report)


def _print(job: Any, found: Any, json_output: bool) -> None:
    from lightspec_bench.profiling import document

    _show(found, job.out, document(found, job.out) if json_output else None)


def _show(found: Any, out: Path, document: dict[str, Any] | None) -> None:
    """One JSON document, or what a person wants to know of the table."""
    import json

    if document is not None:
        print(json.dumps(document))
        return
    header = found.header
    parts = [sum(point.part == part for point in found.points) for part in ("target", "draft")]
    print(f"{out}: {parts[0]} shapes of the target, {parts[1]} of the drafter (measured)")
    print(f"  {header['model']} in {header['dtype']} on {header['device']}")
    print(
        f"  host {header['host_step_ms']} ms a step and {header['host_request_us']} us a request, with a drafter "
        f"{header['drafter_step_ms']} ms and {header['drafter_request_us']} us more"
    )
    print(f"  {header['note']}")
