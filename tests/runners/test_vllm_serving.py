"""The OpenAI server, its engine in a process of its own, under a planner: chats, counters and trace agree."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lightspec_bench.core import Trace
from tests.runners.vllm_support import ENVIRONMENT, NEEDS_VLLM, SCHEDULER

ROOT = Path(__file__).parent.parent.parent
MODEL = Path("~/.cache/lightspec-bench/smollm2-135m-instruct").expanduser()
NUM_CHATS, MAX_TOKENS, DEPTH = 8, 24, 4

pytestmark = [
    *NEEDS_VLLM,
    pytest.mark.skipif(not MODEL.exists(), reason="no SmolLM2: lightspec-bench models get smollm2"),
]


@dataclass
class Served:
    """What was left of a server that answered the chats and was told to stop."""

    answers: list[dict[str, Any]]
    metrics: dict[str, float]
    steps: list[dict[str, Any]]
    trace: Trace


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    from lightspec_bench.traces.format import read_trace

    folder = tmp_path_factory.mktemp("served")
    log, trace, port = folder / "steps.jsonl", folder / "live.parquet", _free_port()
    server = _start(port, log, trace, folder / "server.log")
    try:
        _wait_for(port, server, folder / "server.log")
        with ThreadPoolExecutor(NUM_CHATS) as pool:
            answers = list(pool.map(lambda number: _chat(port, number), range(NUM_CHATS)))
        metrics = _metrics(port)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(120)
    steps = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return Served(answers, metrics, steps, read_trace(trace))


def _start(port: int, log: Path, trace: Path, output: Path) -> subprocess.Popen[bytes]:
    """As `vllm serve` does, whose command the CPU wheel lacks."""
    speculative = {"method": "ngram", "num_speculative_tokens": DEPTH, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    options = {"planner": "tests.runners.vllm_support:Adversary", "options": {"log": str(log)}, "record": str(trace)}
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(MODEL), "--port", str(port),
        "--served-model-name", "smollm2", "--enforce-eager", "--max-model-len", "512", "--max-num-seqs", "8",
        "--scheduler-cls", SCHEDULER, "--speculative-config", json.dumps(speculative),
        "--additional-config", json.dumps({"lightspec": options}), "--per-request-spec-decode-metrics", "detailed",
        "--shutdown-timeout", "60",
    ]  # fmt: skip
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    with output.open("wb") as file:
        return subprocess.Popen(command, cwd=output.parent, env=environment, stdout=file, stderr=file)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[bytes], output: Path) -> None:
    for _ in range(1200):
        if server.poll() is not None:
            raise AssertionError(output.read_text(encoding="utf-8")[-3000:])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the server did not start")


def _chat(port: int, number: int) -> dict[str, Any]:
    body = {
        "model": "smollm2", "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True,
        "messages": [{"role": "user", "content": f"Count to {number + 5}, then count to {number + 5} again."}],
    }  # fmt: skip
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def _metrics(port: int) -> dict[str, float]:
    """Sums over labels; counters end in _total."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name.partition("{")[0]] = found.get(name.partition("{")[0], 0.0) + float(value)
    return found


def _sum(steps: list[dict[str, Any]], name: str) -> int:
    return sum(sum(step[name]) for step in steps)


def test_all_chats_are_answered(served: Served) -> None:
    assert len(served.answers) == NUM_CHATS
    for answer in served.answers:
        assert answer["usage"]["completion_tokens"] == MAX_TOKENS
        assert answer["choices"][0]["message"]["content"]


def test_every_planned_length_is_honoured(served: Served) -> None:
    assert all(step["verified"] == step["planned"] for step in served.steps)
    assert {depth for step in served.steps for depth in step["depth"]} == set(range(DEPTH + 1))
    assert _sum(served.steps, "accepted") > 0


def test_prometheus_has_our_counters(served: Served) -> None:
    rows = sum(len(step["verified"]) for step in served.steps) + _sum(served.steps, "verified")
    assert served.metrics["vllm:lightspec_steps_total"] == len(served.steps)
    assert served.metrics["vllm:lightspec_verify_rows_total"] == rows
    trimmed = _sum(served.steps, "pending") - _sum(served.steps, "verified")
    assert served.metrics["vllm:lightspec_trimmed_tokens_total"] == trimmed
    assert served.metrics["vllm:lightspec_planner_seconds_total"] > 0
    assert served.metrics["vllm:lightspec_depth"] == max(served.steps[-1]["depth"])
    assert served.metrics["vllm:spec_decode_num_draft_tokens_total"] == _sum(served.steps, "verified")


def test_answers_carry_the_same_counts(served: Served) -> None:
    details = [answer["metrics"]["speculative_decoding"] for answer in served.answers]
    assert sum(sum(each["per_step_drafted"]) for each in details) == _sum(served.steps, "verified")


def test_the_trace_has_every_request_and_what_was_verified_of_it(served: Served) -> None:
    trace = served.trace
    assert (trace.info.indexing, trace.info.origin, trace.info.drafter) == ("step", "recorded", "ngram")
    assert trace.num_output_tokens.tolist() == [MAX_TOKENS] * NUM_CHATS
    assert sorted(trace.num_prompt_tokens.tolist()) == sorted(a["usage"]["prompt_tokens"] for a in served.answers)
    accepted = 0
    for start, end in zip(trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), strict=True):
        position = start + 1
        while position < end:  # walk as the engine did: by what the trace says was accepted
            accepted += int(trace.num_accepted[position])
            position += int(trace.num_accepted[position]) + 1
    assert accepted == _sum(served.steps, "accepted")
