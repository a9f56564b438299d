"""`lightspec-bench train-drafter`: train a draft head on the target's own outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

KINDS = ("eagle", "parallel")


def train_drafter(
    kind: Annotated[str, typer.Argument(help="eagle (token by token) or parallel (a block in one pass).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the head to.")],
    target: Annotated[str, typer.Option("--target", "-t", help="smollm2, a folder or a hub name.")] = "smollm2",
    prompts: Annotated[
        list[str] | None,
        typer.Option("--prompts", "-p", help="A short name, a file, a folder or a hub name; repeat it."),
    ] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option("--leave-out", help="A trace whose prompts are not trained on; repeat it.")
    ] = None,
    self_prompts: Annotated[
        int, typer.Option("--self-prompts", min=0, help="Prompts for the target to write itself, beside --prompts.")
    ] = 0,
    samples: Annotated[int, typer.Option(min=0, help="Sampled answers per prompt, beside the greedy one.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of the sampled answers.")] = 0.8,
    max_tokens: Annotated[int, typer.Option(min=1, help="New tokens per answer.")] = 192,
    epochs: Annotated[float, typer.Option(min=0.01, help="Passes over the texts.")] = 8.0,
    steps: Annotated[int, typer.Option(min=1, help="Draft tokens unrolled in training.")] = 4,
    batch_texts: Annotated[int, typer.Option(min=1, help="Texts per iteration.")] = 4,
    learning_rate: Annotated[float, typer.Option(min=0.0, help="At its highest.")] = 1.5e-3,
    draft_vocab: Annotated[int, typer.Option(min=1, help="Tokens the head can draft.")] = 8192,
    intermediate_size: Annotated[int | None, typer.Option(min=1, help="Of the MLP; the target's by default.")] = None,
    block: Annotated[int, typer.Option(min=1, help="Slots of a parallel head.")] = 8,
    init: Annotated[Path | None, typer.Option(help="Go on from this trained head, instead of a new one.")] = None,
    dtype: Annotated[str, typer.Option(help="The target's: bfloat16 or float32.")] = "bfloat16",
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    keep_work: Annotated[bool, typer.Option("--keep-work", help="Keep texts and hidden states (OUT.work).")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of sampling, weights and order.")] = 0,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")] = False,
) -> None:
    """Train a draft head on the target's own answers, and write it with its record to a folder.

    Interrupted, it goes on where it stopped when given the same command again. Loss and the share of right first
    draft tokens are shown while it trains, survival per depth on prompts held out (one in twenty) at its end.

    Examples:

    - `lightspec-bench train-drafter eagle -p mine.jsonl --self-prompts 1000 -o heads/mine`

    - `lightspec-bench train-drafter parallel -p gsm8k -p mbpp --leave-out smollm2-135m-eagle -o heads/block`
    """
    from lightspec_bench.errors import BenchError

    if kind not in KINDS:
        raise BenchError(f"head kind is {kind!r}, expected one of {', '.join(KINDS)}")
    if not prompts and not self_prompts:
        raise BenchError("nothing to train on: give --prompts, --self-prompts or both")
    from lightspec_bench.runners.torch_targets import target_place
    from lightspec_bench.runners.torch_texts import TextSettings
    from lightspec_bench.runners.torch_train import TrainSettings
    from lightspec_bench.runners.torch_train_head import HeadOptions, TrainRequest

    chosen, licences = _prompts(prompts or [], leave_out or [])
    request = TrainRequest(
        kind=kind,
        target=target_place(target),
        out=out,
        prompts=chosen,
        text=TextSettings(
            max_tokens=max_tokens,
            num_samples=samples,
            temperature=temperature,
            num_self_prompts=self_prompts,
            seed=seed,
        ),
        train=TrainSettings(
            epochs=epochs,
            batch_texts=batch_texts,
            steps=steps,
            first_steps=min(2, steps),
            learning_rate=learning_rate,
            seed=seed,
        ),
        head=HeadOptions(intermediate_size=intermediate_size, draft_vocab_size=draft_vocab, num_slots=block),
        licences=licences,
        init=init,
        keep_work=keep_work,
    )
    record = _train(request, dtype, device)
    _print_record(out, record, json_output)


def _prompts(sources: list[str], leave_out: list[str]) -> tuple[list[Any], dict[str, str]]:
    """First user turns of the sources without those of the traces to leave out; and the sources' licences."""
    from lightspec_bench.errors import BenchError
    from lightspec_bench.runners.torch_texts import TrainPrompt
    from lightspec_bench.traces.library import load_trace
    from lightspec_bench.traces.prompts import load_prompts

    without = {
        str(name).rpartition("#")[0] or str(name) for trace in leave_out for name in load_trace(trace).request_id
    }
    found, licences = [], {}
    for source in sources:
        part = load_prompts(source)
        licences[part.name] = part.licence
        found += [TrainPrompt(row.id, part.name, row.turns[0]) for row in part.prompts if row.id not in without]
    if sources and not found:
        raise BenchError(f"every prompt of {', '.join(sources)} is in a trace to leave out, expected some others")
    return found, licences


def _train(request: Any, dtype: str, device: str) -> dict[str, Any]:
    """Load the target and train, with progress on stderr where that is a terminal."""
    from lightspec_bench.progress import Bars
    from lightspec_bench.runners.torch_model import load_model, load_tokenizer
    from lightspec_bench.runners.torch_train_head import train_head

    model, tokenizer = load_model(request.target, dtype, device).model, load_tokenizer(request.target)
    with Bars() as bars:
        return train_head(request, model, tokenizer, bars.report)


def _print_record(out: Path, record: dict[str, Any], json_output: bool) -> None:
    import json

    if json_output:
        print(json.dumps({"folder": str(out), **record}))
        return
    shown = "  ".join(f"{depth}: {share:.1%}" for depth, share in enumerate(record["held_out_survival"], start=1))
    print(f"{out}: {record['num_parameters'] / 1e6:.2f} million weights, trained on {record['num_tokens']:,} tokens")
    print(f"survival per depth on {record['num_texts_held_out']} held-out texts (measured): {shown}")
