"""`lightspec-bench record`: make a trace of a real target and a real drafter."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Target = Annotated[str, typer.Option("--target", "-t", help="smollm2, a checkpoint folder or a hub name.")]
DrafterSpec = Annotated[
    str,
    typer.Option(
        "--drafter",
        "-d",
        help="ngram[:max_n=4], suffix, model:FOLDER, layer-skip:first=10,last=15, eagle:FOLDER, parallel:FOLDER or a "
        "shipped head.",
    ),
]
GraphSizes = Annotated[
    str | None,
    typer.Option(
        "--graph-sizes",
        help="Numbers of rows that passes are padded to, each captured as a CUDA graph: 1-8,16-512/16, or none. On "
        "CUDA 1,2,4,8-256/8,272-512/16 by default; on a CPU none.",
    ),
]

Engine = Annotated[
    str | None, typer.Option("--engine", help="Further arguments of vLLM's engine, as a JSON object; --runner vllm.")
]


def check_runner(runner: str, engine: str | None) -> None:
    """Raise for a runner that runs no real models, or engine arguments for one that takes none."""
    from lightspec_bench.errors import BenchError
    from lightspec_bench.measured import MEASURING

    if runner not in MEASURING:
        raise BenchError(f"--runner is {runner!r}, expected {' or '.join(MEASURING)}")
    if engine is not None and runner != "vllm":
        raise BenchError("--engine has vLLM's arguments, expected --runner vllm with it")


def only_torch(given: dict[str, Any]) -> None:
    """Raise where an option of the torch runner is given to another."""
    from lightspec_bench.errors import BenchError

    for name, value in given.items():
        if value is not None:
            raise BenchError(f"--{name} is for the torch runner, expected --runner torch with it")


def record(
    prompts: Annotated[
        list[str], typer.Option("--prompts", "-p", help="A short name, a file, a folder or OWNER/NAME; repeat it.")
    ],
    drafter: DrafterSpec,
    out: Annotated[Path, typer.Option("--out", "-o", help="The Parquet file to write.")],
    target: Target = "smollm2",
    num_prompts: Annotated[
        int | None, typer.Option("--num-prompts", "-n", min=1, help="Drawn from each source; all by default.")
    ] = None,
    same_prompts: Annotated[
        str | None, typer.Option("--same-prompts", help="Take the requests of this trace, by id, from the sources.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an output at most.")] = 192,
    max_draft_tokens: Annotated[
        int | None,
        typer.Option("--max-draft-tokens", "-k", min=1, help="D; 8, or a parallel head's slots, by default."),
    ] = None,
    max_prompt_tokens: Annotated[int, typer.Option(min=1, help="Longer prompts are left out, and counted.")] = 2048,
    first_turns: Annotated[bool, typer.Option("--first-turns", help="Only the first turn of a conversation.")] = False,
    chat_template: Annotated[bool, typer.Option("--chat-template/--no-chat-template", help="The tokenizer's.")] = True,
    dtype: Annotated[str, typer.Option(help="float32 (exact on replay), bfloat16 or float16.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    graph_sizes: GraphSizes = None,
    batch: Annotated[int, typer.Option(min=1, help="Requests at once.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of prompts.")] = 0,
    outputs: Annotated[
        Path | None, typer.Option("--outputs", help="Keep the target's outputs here, for the next drafter's trace.")
    ] = None,
    confidences: Annotated[
        bool, typer.Option("--confidences/--no-confidences", help="Keep the drafter's confidences and entropies.")
    ] = True,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what an interrupted run has finished.")] = False,
    licence: Annotated[str | None, typer.Option(help="Terms of the trace; those of the prompts by default.")] = None,
    runner: Annotated[str, typer.Option(help="torch or vllm.")] = "torch",
    engine: Engine = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")] = False,
) -> None:
    """Record a trace by output position: the target's own greedy outputs, and at every position of them a draft.

    The trace replays exactly under any planner. Every finished prompt is kept beside the output file until the trace
    is written: interrupted, the same command with --resume goes on.

    Examples:

    - `lightspec-bench record --drafter ngram --prompts humaneval --num-prompts 40 -o ngram.parquet`

    - `lightspec-bench record -d smollm2-135m-eagle -p gsm8k -p mt_bench -k 11 -o eagle.parquet --outputs own.jsonl`

    - `lightspec-bench record --runner vllm --drafter ngram --prompts humaneval --num-prompts 8 -o vllm.parquet`
    """
    check_runner(runner, engine)
    if runner == "vllm":
        only_torch({"graph-sizes": graph_sizes})
    from lightspec_bench.bench import needs_torch

    with needs_torch("recording", runner):
        from lightspec_bench.recording import PromptChoice, RecordJob

    choice = PromptChoice(
        tuple(prompts), num_prompts, seed, chat_template, not first_turns, same_prompts, max_prompt_tokens
    )
    job = RecordJob(
        target, drafter, choice, out, max_tokens, max_draft_tokens, dtype, device, batch, outputs, resume, licence,
        graph_sizes=graph_sizes, confidences=confidences, runner=runner, engine=engine,
    )  # fmt: skip
    document = _document(job, *_recorded(job))
    _print(document, json_output)


def _recorded(job: Any) -> tuple[Any, Any]:
    """Record with progress on stderr; an interrupt says how to go on."""
    import sys

    from lightspec_bench.bench import needs_torch
    from lightspec_bench.progress import Bars
    from lightspec_bench.recording import record as record_job

    try:
        with needs_torch("recording", job.runner), Bars() as bars:
            return record_job(job, bars.report)
    except KeyboardInterrupt:
        print(
            f"lightspec-bench: interrupted; finished prompts are kept beside {job.out}, --resume goes on",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


def _document(job: Any, found: Any, prompts: Any) -> dict[str, Any]:
    from dataclasses import asdict

    trace = found.trace
    return {
        "trace": str(job.out),
        "info": asdict(trace.info),
        "num_requests": trace.num_requests,
        "num_positions": trace.num_positions,
        "num_looping_requests": int((trace.repeats_from < trace.num_output_tokens).sum()),
        "mean_accepted": float(trace.num_accepted[_drafting(trace)].mean()) if _drafting(trace).any() else None,
        "num_rows_skipped": prompts.num_skipped,
        "num_prompts_too_long": prompts.num_too_long,
        "notes": list(prompts.notes),
        "decode_s": found.decode_s,
        "walk_s": found.walk_s,
        "num_new_positions": found.num_positions,
        "positions_per_s": found.positions_per_s,
    }


def _drafting(trace: Any) -> Any:
    """Positions at which a draft can be made: all but each request's placeholder."""
    import numpy as np

    mask = np.ones(trace.num_positions, dtype=np.bool_)
    mask[trace.offsets[:-1]] = False
    return mask


def _print(document: dict[str, Any], json_output: bool) -> None:
    import json

    if json_output:
        print(json.dumps(document))
        return
    info = document["info"]
    print(f"{document['trace']}: {document['num_requests']} requests, {document['num_positions']} output positions")
    print(f"  {info['target']} with {info['drafter']} ({info['drafter_kind']}), D = {info['max_draft_tokens']}")
    if document["mean_accepted"] is not None:
        print(f"  accepted per position (recorded): {document['mean_accepted']:.2f} of {info['max_draft_tokens']}")
    left = document["num_rows_skipped"], document["num_prompts_too_long"]
    if any(left):
        print(f"  left out: {left[0]} rows that could not be used, {left[1]} prompts that are too long")
    for note in document["notes"]:
        print(f"  note: {note}")
    if document["positions_per_s"] is not None:
        print(
            f"  {document['positions_per_s']:.0f} positions/s (measured): {document['decode_s']:.1f} s decoding, "
            f"{document['walk_s']:.1f} s drafting along known outputs"
        )
