"""The command line: parses, calls one function, prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lightspec_bench import __version__
from lightspec_bench.cli_planners import app as planners_app
from lightspec_bench.cli_traces import app as traces_app

app = typer.Typer(
    name="lightspec-bench",
    help="Which speculative-decoding (MTP) planner, and which settings, are fastest on your workload, models and "
    "hardware.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(planners_app, name="planners")
app.add_typer(traces_app, name="traces")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lightspec-bench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    suite: Annotated[str, typer.Argument(help="A shipped suite or a YAML file.")] = "default",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder; runs/<timestamp> by default.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The small shipped suite (about 10 s).")] = False,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Seeds instead of the suite's; repeat it.")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; every core by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --out: finished cells are kept.")] = False,
    all_static: Annotated[bool, typer.Option("--all-static", help="Show every static K, not only the best.")] = False,
    json_output: Json = False,
) -> None:
    """Run a suite: planners x traces x latency models x concurrencies, simulated.

    Writes tables, pictures and report.html to the results folder. Exit code 1 when a planner failed in a cell.

    Examples:

    - `lightspec-bench run`

    - `lightspec-bench run my-suite.yaml --seed 0 --seed 1 --out runs/mine`

    - `lightspec-bench run my-suite.yaml --out runs/mine --resume`
    """
    from lightspec_bench.cli_run import run_command

    suite = "quick" if quick and suite == "default" else suite
    raise typer.Exit(run_command(suite, out, seed, jobs, resume, all_static, json_output))


@app.command()
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
    seed: Annotated[int, typer.Option(min=0, help="Order of the requests.")] = 0,
    static: Annotated[
        bool, typer.Option("--static/--no-static", help="Also run every static K, to find the best in hindsight.")
    ] = True,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes; every core by default.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also save the runs and a report here.")] = None,
    json_output: Json = False,
) -> None:
    """Replay one trace under one planner, or a few, beside no speculation and the best static K.

    Examples:

    - `lightspec-bench replay smollm2-135m-eagle --planner lightspec-reference --concurrency 64`

    - `lightspec-bench replay my.parquet -p static:k=3 -p dspark --prefill chunked --arrivals poisson --rate 20`
    """
    from lightspec_bench.cli_run import replay_command, replay_suite
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
    )
    suite = replay_suite(trace, planner, concurrency, latency, conditions, seed, static)
    replay_command(suite, out, jobs, json_output)


@app.command()
def report(
    folder: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Results folders of `run` or `replay --out`.")],
    all_static: Annotated[bool, typer.Option("--all-static", help="Show every static K, not only the best.")] = False,
    json_output: Json = False,
) -> None:
    """Make the tables, pictures and report.html of finished runs again, each in its own folder.

    Example: `lightspec-bench report runs/2026-11-29T12-00-00`
    """
    from lightspec_bench.cli_run import report_command

    report_command(folder, all_static, json_output)


def main(argv: list[str] | None = None) -> Any:
    """Run the command line; a mistake of the user's is one sentence on stderr, without a traceback."""
    from lightspec_bench.errors import BenchError

    try:
        app(argv, prog_name="lightspec-bench")
    except BenchError as error:
        print(f"lightspec-bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("lightspec-bench: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
