"""`lightspec-bench replay`: one trace under a few planners."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer


def replay(
    trace: Annotated[str, typer.Argument(help="A shipped trace or a Parquet file, with options: NAME:category=gsm8k.")],
    planner: Annotated[list[str], typer.Option("--planner", "-p", help="NAME[:key=value,...]; repeat to compare.")],
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Requests running at once.")] = 64,
    latency: Annotated[str, typer.Option("--latency", "-l", help="A shipped latency model or a CSV file.")] = (
        "h200-qwen3-14b"
    ),
    arrivals: Annotated[str, typer.Option(help="closed, poisson, gamma or trace.")] = "closed",
    rate: Annotated[float | None, typer.Option(help="Requests per second, for poisson and gamma.")] = None,
    cv: Annotated[float, typer.Option(help="Coefficient of variation of gamma arrivals.")] = 1.0,
    num_requests: Annotated[int | None, typer.Option(min=1, help="Requests to run; the trace's by default.")] = None,
    prefill: Annotated[str, typer.Option(help="off, separate or chunked.")] = "off",
    chunk_tokens: Annotated[int, typer.Option(min=1, help="Rows of a step with chunked prefill.")] = 2048,
    lag_steps: Annotated[int, typer.Option(min=0, max=1, help="0: synchronous engine; 1: overlapped.")] = 1,
    catch_up: Annotated[str, typer.Option(help="A drafter follows at depth 0 each_step or on_resume.")] = "each_step",
    planner_time: Annotated[str, typer.Option(help="measured: exposed planner time counts; off: it does not.")] = (
        "measured"
    ),
    warmup_steps: Annotated[int, typer.Option(min=0, help="Steps left out of the figures.")] = 0,
    replicas: Annotated[int, typer.Option(min=1, help="Engines behind a router, for requests that arrive.")] = 1,
    router: Annotated[str, typer.Option(help="least-requests or round-robin.")] = "least-requests",
    align: Annotated[
        str, typer.Option(help="none: replicas have clocks of their own; max: ranks that step and draft together.")
    ] = "none",
    slo: Annotated[
        list[str] | None, typer.Option("--slo", help="Bounds of a request, ttft_ms=500,tpot_ms=30: adds goodput.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Order of the requests.")] = 0,
    static: Annotated[
        bool, typer.Option("--static/--no-static", help="Also run every static K, to find the best in hindsight.")
    ] = True,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; every core by default.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also save the runs and a report here.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")] = False,
) -> None:
    """Replay one trace under one planner, or a few, beside no speculation and the best static K.

    Examples:

    - `lightspec-bench replay smollm2-135m-eagle --planner lightspec-reference --concurrency 64`

    - `lightspec-bench replay my.parquet -p static:k=3 -p dspark --prefill chunked --arrivals poisson --rate 20`

    - `lightspec-bench replay my.parquet -p lightspec --replicas 4 --arrivals poisson --rate 80 --slo tpot_ms=30`
    """
    from lightspec_bench.cli_run import replay_command, replay_suite
    from lightspec_bench.slo import request_slo
    from lightspec_bench.suite import Conditions

    conditions = Conditions(
        arrivals=arrivals,
        rate=rate,
        cv=cv,
        num_requests=num_requests,
        lag_steps=lag_steps,
        prefill=prefill,
        chunk_tokens=chunk_tokens,
        catch_up=catch_up,
        planner_time=planner_time,
        warmup_steps=warmup_steps,
        replicas=replicas,
        router=router,
        align=align,
    )
    suite = replay_suite(trace, planner, concurrency, latency, conditions, seed, static)
    suite = replace(suite, slo=request_slo(slo or []))
    replay_command(suite, out, jobs, json_output)
