"""How fast the real engine decodes: tokens/s without speculation against transformers and vLLM, and lightspec against
the best static K.

Why: a planner is only worth comparing on an engine that is no slower than what people would use instead, and a dynamic
planner has to hold its own against the best fixed K where steps really run. Every pair is timed in turn, on the same
prompts and the same number of tokens (stop tokens are ignored), and shown as a ratio of that pair; the figure is the
median over repeats. Planners run under a load that stays full to the end, and the time of prefill is left out there.
transformers pads its batch and uses a dynamic cache, as `generate` does; its assisted generation drafts by prompt
lookup, as does our `ngram` drafter beside it. vLLM is timed by a program of its own under the Python given with
--vllm-python, which times `LLM.generate` after one round to warm up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

from lightspec_bench.bench import Bench, open_bench
from lightspec_bench.core import Planner
from lightspec_bench.measure_latency import served_latencies, warm_up
from lightspec_bench.measured import Measured
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.torch_bench import TorchBench
from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner

PARTS = ("transformers", "static", "vllm")
LOADS, TARGETS = (1, 8, 32), {"transformers": 1.0, "vllm": 0.7}
VLLM = """
import json, sys, time
from vllm import LLM, SamplingParams
model, dtype, tokens, prompts, repeats = json.loads(sys.argv[1])
llm = LLM(model, dtype=dtype, max_num_seqs=len(prompts), max_model_len=1024, enable_prefix_caching=False)
settings = SamplingParams(temperature=0.0, max_tokens=tokens, min_tokens=tokens, ignore_eos=True)
asked = [{"prompt_token_ids": prompt} for prompt in prompts]
seconds = []
for _ in range(1 + repeats):
    start = time.perf_counter()
    llm.generate(asked, settings, use_tqdm=False)
    seconds.append(time.perf_counter() - start)
print('seconds', json.dumps(seconds[1:]))  # vLLM may print after it
"""


def models_of(bench: Bench) -> TorchBench:
    assert isinstance(bench.engine, TorchBench)
    return bench.engine


def engine(bench: Bench, number: int, tokens: int, spec: str) -> float:
    """Tokens per second of the engine over one batch from start to end, prefill included."""
    runner, planner = prepared(bench, number, number, tokens, spec, None, TorchOptions())
    start = time.perf_counter()
    run = runner.run(planner)
    seconds = time.perf_counter() - start
    return float(run.requests["num_output_tokens"].sum()) / seconds


def served(bench: Bench, number: int, tokens: int, spec: str, latency: Any, seed: int) -> float:
    """Tokens per second under a load that stays full to the end, as `run` has it, without the time of prefill."""
    options = TorchOptions(keep_full=True, shuffle_seed=seed)
    runner, planner = prepared(bench, number, 2 * number, tokens, spec, latency, options)
    totals = runner.run(planner).totals
    return float(totals.num_output_tokens) / (totals.elapsed_s - totals.prefill_s)


def prepared(
    bench: Bench, number: int, num_requests: int, tokens: int, spec: str, latency: Any, options: TorchOptions
) -> tuple[TorchRunner, Planner]:
    config, models = bench.config(number, latency), models_of(bench)
    requests = [replace(request, max_tokens=tokens) for request in taken(bench, num_requests)]
    return TorchRunner(models.target, models.loaded, requests, config, options), make_planner(spec, config)


def taken(bench: Bench, number: int) -> list[Any]:
    return [bench.requests[i % len(bench.requests)] for i in range(number)]


def generate(model: Any, prompts: list[list[int]], tokens: int, assisted: bool = False) -> float:
    """Tokens per second of `generate` over one left-padded batch."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    more = {"prompt_lookup_num_tokens": 8} if assisted else {}
    start = time.perf_counter()
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            pad_token_id=0,
            **more,
        )
    return float((out.shape[1] - width) * len(prompts)) / (time.perf_counter() - start)


def vllm(python: str, bench: Bench, number: int, tokens: int, repeats: int) -> float:
    """Median tokens per second of vLLM, in a process of its own."""
    from lightspec_bench.runners.torch_targets import target_place

    prompts = [list(request.tokens) for request in taken(bench, number)]
    given = json.dumps([target_place(bench.what.target), bench.what.dtype, tokens, prompts, repeats])
    env = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "2"} | os.environ
    done = subprocess.run([python, "-c", VLLM, given], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(f"{python}: vLLM ended with {done.returncode}\n{done.stderr[-2000:]}")
    (said,) = (line for line in done.stdout.splitlines() if line.startswith("seconds "))
    return number * tokens / statistics.median(json.loads(said.removeprefix("seconds ")))


def pairs(ours: Callable[[], float], theirs: Callable[[], float], repeats: int) -> dict[str, float]:
    """Median tokens/s of both and median ratio of pairs run in turn."""
    found = []
    for number in range(repeats):  # who begins changes, so that drift favours none
        both = (ours(), theirs()) if number % 2 == 0 else (theirs(), ours())[::-1]
        found.append(both)
    ours_s, theirs_s = zip(*found, strict=True)
    ratios = [a / b for a, b in found]
    return {
        "ours_tokens_per_s": round(statistics.median(ours_s), 2),
        "theirs_tokens_per_s": round(statistics.median(theirs_s), 2),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_low": round(min(ratios), 3),
        "ratio_high": round(max(ratios), 3),
    }


def against_transformers(bench: Bench, loads: tuple[int, ...], tokens: int, repeats: int) -> list[dict[str, Any]]:
    """Without speculation at every load, and at one request prompt lookup against prompt lookup."""
    from transformers import AutoModelForCausalLM

    from lightspec_bench.runners.torch_targets import target_place

    load: Any = AutoModelForCausalLM.from_pretrained
    model = load(target_place(bench.what.target), dtype=models_of(bench).target.dtype).eval()
    model.generation_config.eos_token_id = None
    rows = []
    for number in loads:
        prompts = [list(request.tokens) for request in taken(bench, number)]
        found = pairs(
            lambda number=number: engine(bench, number, tokens, "none"),  # type: ignore[misc]
            lambda prompts=prompts: generate(model, prompts, tokens),  # type: ignore[misc]
            repeats,
        )
        rows.append(
            {"what": "no speculation / generate", "requests": number, "target": TARGETS["transformers"], **found}
        )
    prompts = [list(bench.requests[0].tokens)]
    depth = bench.drafter.max_draft_tokens
    found = pairs(
        lambda: engine(bench, 1, tokens, f"static:k={depth}"),
        lambda: generate(model, prompts, tokens, assisted=True),
        repeats,
    )
    return [*rows, {"what": "ngram / assisted generation", "requests": 1, "target": TARGETS["transformers"], **found}]


def against_static(bench: Bench, loads: tuple[int, ...], tokens: int, repeats: int) -> list[dict[str, Any]]:
    """`lightspec` against the best of no speculation and a few static K, all run in turn."""
    rows = []
    for number in loads:
        latency = served_latencies(bench, (number,))[number]
        depth = bench.drafter.max_draft_tokens
        specs = ["none", *(f"static:k={k}" for k in sorted({1, depth // 2, depth} - {0})), "lightspec"]
        rounds = [
            {spec: served(bench, number, tokens, spec, latency, r) for spec in (specs if r % 2 == 0 else specs[::-1])}
            for r in range(repeats)
        ]
        medians = {spec: statistics.median(each[spec] for each in rounds) for spec in specs}
        best = max(specs[:-1], key=medians.__getitem__)
        ratios = [each["lightspec"] / each[best] for each in rounds]
        rows.append(
            {
                "what": f"lightspec / best static ({best})", "requests": number, "target": 1.0,
                "ours_tokens_per_s": round(medians["lightspec"], 2), "theirs_tokens_per_s": round(medians[best], 2),
                "ratio": round(statistics.median(ratios), 3), "ratio_low": round(min(ratios), 3),
                "ratio_high": round(max(ratios), 3), "tokens_per_s": {k: round(v, 2) for k, v in medians.items()},
            }
        )  # fmt: skip
    return rows


def against_vllm(python: str, bench: Bench, loads: tuple[int, ...], tokens: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for number in loads:
        theirs = vllm(python, bench, number, tokens, repeats)
        ours = statistics.median(engine(bench, number, tokens, "none") for _ in range(repeats))
        target = TARGETS["vllm"] if number == max(LOADS) else None
        figures = {"ours_tokens_per_s": round(ours, 2), "theirs_tokens_per_s": round(theirs, 2)}
        rows.append({"what": "no speculation / vLLM", "requests": number, "target": target, **figures})
        rows[-1]["ratio"] = round(ours / theirs, 3)
    return rows


def show(row: dict[str, Any]) -> None:
    spread = f"[{row['ratio_low']}, {row['ratio_high']}]" if "ratio_low" in row else ""
    target = f"{row['target']}" if row["target"] is not None else ""
    print(
        f"{row['what']:38}{row['requests']:>5}{row['ours_tokens_per_s']:>10}{row['theirs_tokens_per_s']:>10}"
        f"{row['ratio']:>8} {spread:16}{target:>7}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tokens and loads, under 50 s on 2 quiet cores")
    parser.add_argument("--target", default="smollm2")
    parser.add_argument("--drafter", default="ngram", help="for the dynamic planner; assisted generation is lookup")
    parser.add_argument("--prompts", default="humaneval")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default all)")
    parser.add_argument("--vllm-python", help="the Python of an environment with vllm (CPU) in it")
    given = parser.parse_args()
    tokens, repeats, loads = (8, 1, (1, 8)) if given.quick else (64, 3, LOADS)
    dynamic_loads = (8,) if given.quick else LOADS
    what = Measured(
        given.target,
        given.drafter,
        given.prompts,
        num_prompts=8,
        max_tokens=tokens,
        max_draft_tokens=8,
        dtype=given.dtype,
    )
    bench = open_bench(what)
    threads = torch.get_num_threads()
    print(f"{given.target}, {given.dtype}, {threads} threads, {tokens} tokens a request, {repeats} repeats; tokens/s")
    print(f"{'ours / theirs':38}{'N':>5}{'ours':>10}{'theirs':>10}{'ratio':>8} {'range':16}{'target':>7}")
    warm_up(bench, (1,))
    rows = []
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "transformers": lambda: against_transformers(bench, loads, tokens, repeats),
        "static": lambda: against_static(bench, dynamic_loads, tokens, repeats),
        "vllm": lambda: against_vllm(given.vllm_python, bench, loads, tokens, repeats) if given.vllm_python else [],
    }
    for part in given.only:
        for row in parts[part]():
            rows.append(row)
            show(row)
    print(json.dumps({"quick": given.quick, "dtype": given.dtype, "threads": threads, "tokens": tokens, "rows": rows}))


if __name__ == "__main__":
    main()
