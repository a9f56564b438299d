"""What engines write of the same steps, each in its own format: for the tests of importers.

A step is (drafted, accepted); a window, request, engine or iteration is a list of steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from lightspec_bench.acceptance_summary import AcceptanceSummary
from lightspec_bench.traces.importer import import_summary

Steps = list[tuple[int, int]]


def sums(steps: Steps) -> tuple[int, int, int]:
    """(drafts, drafted, accepted); steps without a draft are no drafts."""
    drafts = [(d, a) for d, a in steps if d]
    return len(drafts), sum(d for d, _ in drafts), sum(a for _, a in drafts)


def positions(steps: Steps, depth: int) -> list[int]:
    return [sum(a >= k for _, a in steps) for k in range(1, depth + 1)]


def quotient(top: int, bottom: int) -> float:
    return top / bottom if bottom else float("nan")


def vllm_line(steps: Steps, depth: int = 3, old: bool = False, who: str = "(APIServer pid=7) ") -> str:
    drafts, drafted, accepted = sums(steps)
    rate = f"raft acceptance rate: {100 * quotient(accepted, drafted):.1f}%"
    length = f"Mean acceptance length: {1 + quotient(accepted, drafts):.2f}"
    tokens = f"Accepted: {accepted} tokens, Drafted: {drafted} tokens"
    rates = ", ".join(f"{quotient(count, drafts):.3f}" for count in positions(steps, depth))
    rates = f"Per-position acceptance rate: {rates}"
    start = f"{who}INFO 09-02 10:00:00 [metrics.py:100] SpecDecoding metrics: "
    if old:
        return f"{start}D{rate}, {length}, {tokens}, {rates}"
    throughput = "Accepted throughput: 1.20 tokens/s, Drafted throughput: 3.40 tokens/s"
    return f"{start}{length}, {throughput}, {tokens}, {rates}, Avg D{rate}"


def vllm_first_line(steps: Steps) -> str:
    """V1's first lines: no length, no positions, no drafts."""
    _, drafted, accepted = sums(steps)
    rate = f"{100 * quotient(accepted, drafted):.1f}%"
    return (
        f"SpecDecoding metrics: Draft acceptance rate: {rate}, Accepted: {accepted} tokens, Drafted: {drafted} tokens"
    )


def v0_line(depth: int, matched: int, drafted: int, emitted: int) -> str:
    efficiency = quotient(emitted, drafted // depth * (depth + 1))
    return (
        f"INFO 02-11 14:50:38 metrics.py:477] Speculative metrics: Draft acceptance rate: "
        f"{quotient(matched, drafted):.3f}, System efficiency: {efficiency:.3f}, Number of speculative tokens: "
        f"{depth}, Number of accepted tokens: {matched}, Number of draft tokens: {drafted}, "
        f"Number of emitted tokens: {emitted}."
    )


def prometheus(engines: list[Steps], depth: int = 3, suffix: str = "_total") -> str:
    lines = ["# HELP vllm:spec_decode_num_drafts_total Number of drafts.", "vllm:num_requests_running 3.0"]
    for index, steps in enumerate(engines):
        label = f'engine="{index}",model_name="m"'
        names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
        for name, value in zip(names, sums(steps), strict=True):
            lines.append(f"vllm:spec_decode_{name}{suffix}{{{label}}} {float(value)}")
            lines.append(f"vllm:spec_decode_{name}_created{{{label}}} 1.756736798733569e+09")
        for k, count in enumerate(positions(steps, depth)):
            name = f"vllm:spec_decode_num_accepted_tokens_per_pos{suffix}"
            lines.append(f'{name}{{{label},position="{k}"}} {float(count)}')
    return "\n".join(lines) + "\n"


def vllm_response(name: str, steps: Steps, depth: int = 3, level: str = "detailed") -> str:
    drafts, drafted, accepted = sums(steps)
    found = {
        "acceptance_histogram": [sum(a == j for d, a in steps if d) for j in range(depth + 1)],
        "num_spec_steps": drafts, "num_accepted_draft_tokens": accepted, "num_draft_tokens": drafted,
        "num_spec_tokens": depth,
    }  # fmt: skip
    if level == "detailed":
        found["per_step_accepted"] = [a for d, a in steps if d]
        found["per_step_drafted"] = [d for d, _ in steps if d]
    usage = {"prompt_tokens": 9, "completion_tokens": 1 + accepted + len(steps)}
    return json.dumps(
        {"id": name, "choices": [{"text": ""}], "usage": usage, "metrics": {"speculative_decoding": found}}
    )


def bench(steps: Steps, depth: int = 3) -> str:
    drafts, drafted, accepted = sums(steps)
    found = {
        "model_id": "m", "max_concurrency": 8, "request_throughput": 1.5, "total_token_throughput": 9.0,
        "spec_decode_acceptance_rate": 100 * accepted / max(drafted, 1), "spec_decode_num_drafts": drafts,
        "spec_decode_draft_tokens": drafted, "spec_decode_accepted_tokens": accepted,
        "spec_decode_per_position_acceptance_rates": [count / max(drafts, 1) for count in positions(steps, depth)],
    }  # fmt: skip
    return json.dumps(found)


def sglang_line(steps: Steps, depth: int = 3, with_bonus: bool = False, rank: str = "") -> str:
    drafts, _, accepted = sums(steps)
    length = 1 + accepted / drafts if drafts else 0.0
    rate = length / (depth + 1) if with_bonus else max(length - 1, 0) / depth
    return (
        f"[2026-05-01 10:00:00{rank} TP0] Decode batch, #running-req: 48, #token: 9000, token usage: 0.05, accept len: "
        f"{length:.2f}, accept rate: {rate:.2f}, cuda graph: True, gen throughput (token/s): 5452.63, #queue-req: 0"
    )


def llama_request(steps: Steps, depth: int = 3, modern: bool = True, slot: int = 0, task: int = 0) -> str:
    drafts, drafted, accepted = sums(steps)
    where = f"slot print_timing: id  {slot} | task {task} | "
    counts = f"{quotient(accepted, drafted):.5f} ({accepted:5d} accepted / {drafted:5d} generated)"
    if not modern:  # a block: the slot's line, then bare ones
        return f"{where}\nprompt eval time =     648.99 ms /   133 tokens\ndraft acceptance rate = {counts}"
    rates = ", ".join(f"{quotient(count, drafts):.3f}" for count in positions(steps, depth))
    length = f"mean acceptance length = {1 + quotient(accepted, drafts):5.2f}"
    return f"0.06.896.015 I {where}draft acceptance = {counts}, {length}, acceptance rate per position = ({rates})"


def llama_statistics(name: str, steps: Steps) -> str:
    drafts, drafted, accepted = sums(steps)
    some = sum(a > 0 for _, a in steps)
    return (
        f"0.06.896.057 I statistics {name:>16}: #calls(b,g,a) = 1 {drafts} {drafts}, #gen drafts = {drafts}, "
        f"#acc drafts = {some}, #gen tokens = {drafted}, #acc tokens = {accepted}, dur(b,g,a) = 0.005, 325.5, 0.114 ms"
    )


def trtllm(iteration: int, steps: Steps) -> str:
    drafts, drafted, accepted = sums(steps)
    spec = {
        "numDraftTokens": drafted, "numAcceptedTokens": accepted, "numRequestsWithDraftTokens": drafts,
        "acceptanceLength": (accepted + drafts) / drafts if drafts else 0.0, "iterLatencyMS": 1.0,
    }  # fmt: skip
    batching = {"numGenRequests": len(steps), "numContextRequests": 0}
    return json.dumps(
        {"iter": iteration, "iterLatencyMS": 20.5, "inflightBatchingStats": batching, "specDecodingStats": spec}
    )


def lightllm(name: int, steps: Steps, old: bool = False) -> str:
    _, drafted, accepted = sums(steps)
    out, rows = 1 + accepted + len(steps), drafted + len(steps)
    start = f"INFO X-Request-Id: start_time:2026-08-01 10:00:00 lightllm_req_id:{name} first_token_cost:12.5ms "
    middle = f"total_cost_time:99.0ms,out_token_counter:{out} mean_per_token_cost_time: 1.2ms prompt_token_num:9 "
    if old:
        return f"{start}{middle}mtp_avg_token_per_step:{out / (out - accepted)} "
    n = len(steps)
    return (
        f"{start}{middle}mtp_accepted_token_num:{accepted} mtp_total_verify_steps:{n} mtp_total_verify_tokens:{rows} "
        f"mtp_avg_token_per_step:{out / n} mtp_avg_accepted_tokens_per_step:{accepted / n} "
        f"mtp_avg_verify_tokens_per_step:{rows / n} "
    )


def lines(write: Callable[[int, Steps], str]) -> Callable[[list[Steps]], str]:
    return lambda parts: "".join(f"{write(index, steps)}\n" for index, steps in enumerate(parts))


# Every format that tells drafts, draft and accepted tokens of each part
COUNTING: dict[str, Callable[[list[Steps]], str]] = {
    "vllm-log": lines(lambda _, steps: vllm_line(steps)),
    "vllm-prometheus": prometheus,
    "vllm-requests": lines(lambda index, steps: vllm_response(f"r{index}", steps)),
    "vllm-bench": lines(lambda _, steps: bench(steps)),
    "llamacpp-log": lines(lambda index, steps: llama_request(steps, task=index)),
    "trtllm-stats": lines(trtllm),
}
ALL = {
    **COUNTING,
    "sglang-log": lines(lambda _, steps: sglang_line(steps)),
    "lightllm-log": lines(lightllm),
}


def imported(folder: Path, text: str, spec: str | None = None, name: str = "engine.log") -> AcceptanceSummary:
    (folder / name).write_text(text, "utf-8")
    return import_summary(folder / name, spec)
