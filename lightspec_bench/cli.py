"""The command line: parses, calls one function, prints. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lightspec_bench import __version__
from lightspec_bench.cli_compare import compare
from lightspec_bench.cli_latency import app as latency_app
from lightspec_bench.cli_models import app as models_app
from lightspec_bench.cli_planners import app as planners_app
from lightspec_bench.cli_profile import profile
from lightspec_bench.cli_prompts import app as prompts_app
from lightspec_bench.cli_record import record
from lightspec_bench.cli_replay import replay
from lightspec_bench.cli_report import report
from lightspec_bench.cli_traces import app as traces_app
from lightspec_bench.cli_train import train_drafter
from lightspec_bench.cli_tune import tune

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
app.add_typer(prompts_app, name="prompts")
app.add_typer(latency_app, name="latency")
app.add_typer(models_app, name="models")

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


_SCALE: Any = {"rich_help_panel": "Many cells (docs/scale.md)"}
_REAL: Any = {"rich_help_panel": "Measured runs (--runner torch or vllm)"}


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
    all_static: Annotated[bool, typer.Option("--all-static", help="Show every static K, and every table.")] = False,
    executor: Annotated[
        str, typer.Option("--executor", help="process: cores of this machine; ray: a cluster.", **_SCALE)
    ] = "process",
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", help="Of a Ray cluster; a local one is started by default.", **_SCALE)
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", help="bayes, grid or random: planners' options, in the suite's ranges.", **_SCALE),
    ] = None,
    trials: Annotated[
        int | None, typer.Option("--trials", min=1, help="Per searched planner, for bayes and random; 40.", **_SCALE)
    ] = None,
    runner: Annotated[
        str | None, typer.Option("--runner", help="simulated, torch or vllm; what the suite says by default.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "--model", "-t", help="smollm2, a checkpoint folder or a hub name.", **_REAL),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option(
            "--drafter", "-d", help="As for `record`: ngram, suffix, eagle:FOLDER, ...; vllm also takes JSON.", **_REAL
        ),
    ] = None,
    prompts: Annotated[
        str | None, typer.Option("--prompts", help="A short name, a file, a folder or OWNER/NAME.", **_REAL)
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option("--concurrency", "-c", help="Requests at once, such as 1,8.", **_REAL)
    ] = None,
    planner: Annotated[
        list[str] | None, typer.Option("--planner", "-p", help="NAME[:key=value,...]; repeat it.", **_REAL)
    ] = None,
    num_prompts: Annotated[
        int | None, typer.Option("--num-prompts", "-n", min=1, help="Drawn from the source; all by default.", **_REAL)
    ] = None,
    num_requests: Annotated[
        int | None,
        typer.Option("--num-requests", min=1, help="Per cell, at least 4 per place; each prompt once.", **_REAL),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Tokens of an output at most; 128.", **_REAL)
    ] = None,
    max_draft_tokens: Annotated[
        int | None, typer.Option("--max-draft-tokens", "-k", min=1, help="D; the drafter's own by default.", **_REAL)
    ] = None,
    max_static: Annotated[
        int | None, typer.Option("--max-static", min=0, help="Deepest static K that is run; D by default.", **_REAL)
    ] = None,
    static: Annotated[
        bool | None,
        typer.Option("--static/--no-static", help="Run no speculation and every static K; on by default.", **_REAL),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, help="Runs of each cell, in turn (seeds 0, 1, ...).", **_REAL)
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option("--latency", "-l", help="Table that planners are told; fitted at the start by default.", **_REAL),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="float32 (lossless, the default), bfloat16 or float16.", **_REAL)
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or cuda:N.", **_REAL)] = None,
    sync: Annotated[
        bool | None,
        typer.Option("--sync/--lag", help="Plan before each step (vllm's default), or one ahead (torch's).", **_REAL),
    ] = None,
    graph_sizes: Annotated[
        str | None,
        typer.Option(
            "--graph-sizes", help="As for `record`: row counts captured as CUDA graphs, or none; torch only.", **_REAL
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="Further arguments of vLLM's engine, as a JSON object.", **_REAL)
    ] = None,
    json_output: Json = False,
) -> None:
    """Run a suite: planners x traces x latency models x concurrencies, simulated; or planners x concurrencies on real
    models, measured (`--runner torch` or `vllm`).

    Writes tables, pictures and report.html to the results folder. Exit code 1 when a planner failed in a cell.

    Examples:

    - `lightspec-bench run`

    - `lightspec-bench run my-suite.yaml --seed 0 --seed 1 --out runs/mine`

    - `lightspec-bench run my-suite.yaml --out runs/mine --resume`

    - `lightspec-bench run my-suite.yaml --executor ray --ray-address auto`

    - `lightspec-bench run my-ranges.yaml --search bayes --trials 60`

    - `lightspec-bench run --runner torch --drafter ngram --prompts humaneval -n 8 -c 1,8 -p lightspec --repeats 3`

    - `lightspec-bench run --runner vllm --drafter ngram --prompts humaneval -n 8 -c 1,8,32 -p lightspec`
    """
    from lightspec_bench.cli_measure import (
        asked_suite,
        is_measured,
        measure_command,
        never_measured,
        only_simulated,
    )
    from lightspec_bench.cli_run import Place, run_command
    from lightspec_bench.cli_search import search_command

    suite = "quick" if quick and suite == "default" else suite
    what = {
        "target": target, "drafter": drafter, "prompts": prompts, "num_prompts": num_prompts, "max_tokens": max_tokens,
        "max_draft_tokens": max_draft_tokens, "max_static": max_static, "dtype": dtype, "device": device,
        "latency": latency, "engine": engine, "graph_sizes": graph_sizes,
    }  # fmt: skip
    if is_measured(suite, runner):
        what["runner"] = runner
        elsewhere = {"ray-address": ray_address, "executor": None if executor == "process" else executor}
        never_measured({"jobs": jobs, "quick": quick or None, "search": search, "trials": trials, **elsewhere})
        lag_steps = None if sync is None else int(not sync)
        conditions = {"num_requests": num_requests, "lag_steps": lag_steps}
        name = None if suite in ("default", "quick") else suite
        asked = asked_suite(name, what, concurrency, planner, repeats, seed, conditions, static)
        raise typer.Exit(measure_command(asked, out, resume, all_static, json_output))
    given = what | {"concurrency": concurrency, "planner": planner, "num_requests": num_requests, "static": static}
    only_simulated(given | {"repeats": repeats, "sync": sync})
    place = Place(executor, ray_address, jobs)
    if search or trials:
        raise typer.Exit(search_command(suite, search, trials, out, seed, place, resume, json_output))
    raise typer.Exit(run_command(suite, out, seed, place, resume, all_static, json_output))


@app.command()
def validate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Results folder of `run --runner torch` or `vllm`.")],
    trace: Annotated[
        str | None, typer.Option("--trace", help="A trace of the same prompts; recorded now by default.")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option("--latency", "-l", help="Prices; fitted to the run's fixed planners by default."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Hold the simulator against a measured run: predicted and measured throughput, acceptance length and step time.

    The same requests are replayed under the planners that ran. Without `--latency` prices are fitted to the steps of
    no speculation and static K, and the other planners are predicted from them. Writes validation.csv, .png and .html.

    Examples:

    - `lightspec-bench validate runs/mine`

    - `lightspec-bench validate runs/mine --trace mine.parquet --latency profile.csv --json`
    """
    from lightspec_bench.cli_measure import validate_command

    validate_command(folder, trace, latency, json_output)


app.command()(replay)
app.command()(report)
app.command()(compare)
app.command()(record)
app.command()(profile)
app.command("train-drafter")(train_drafter)
app.command()(tune)


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
