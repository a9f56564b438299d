"""Recording and profiling with vLLM: the trace is the one that our own engine records of the same models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import BenchError, TraceInfo
from tests.runners.vllm_support import ENVIRONMENT, NEEDS_VLLM, prompts

pytestmark = NEEDS_VLLM
DEPTH, MAX_TOKENS = 3, 14


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from tests.runners.torch_checkpoint import save_tokenizer
    from tests.runners.vllm_support import tiny_drafter, tiny_target

    folder = tmp_path_factory.mktemp("tiny")
    save_tokenizer(tiny_target(folder / "model"))
    tiny_drafter(folder / "model", folder / "drafter")
    quiet = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**ENVIRONMENT, **quiet}.items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="module")
def source(place: Path) -> Iterator[Any]:
    from lightspec_bench.runners.vllm_bench import VllmBench, VllmSettings
    from lightspec_bench.runners.vllm_source import VllmSource

    chosen = VllmSettings(
        str(place / "model"), f"model:{place / 'drafter'}", DEPTH, max_num_seqs=3, max_tokens=MAX_TOKENS
    )
    found = VllmSource(VllmBench(chosen, max(map(len, prompts()))))
    yield found
    found.close()


def requests() -> list[Any]:
    from lightspec_bench.traces.prompts_requests import PromptRequest

    return [PromptRequest(f"r{row}", "tiny", 0, np.array(prompt)) for row, prompt in enumerate(prompts())]


def recorded(source: Any, out: Path, resume: bool = False, report: Any = None) -> Any:
    from lightspec_bench.recording_work import Store, record_requests

    info = TraceInfo(
        "t",
        "tiny",
        source.drafter_name,
        source.drafter.kind,
        DEPTH,
        "tiny",
        "greedy",
        "position",
        "recorded",
        "test",
        "-",
    )
    store = Store(out, None, resume, {"target": "tiny", "drafter": source.drafter_name})
    return record_requests(source, requests(), MAX_TOKENS, 3, info, store, report or (lambda *what: None))


@pytest.fixture(scope="module")
def trace(source: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return recorded(source, tmp_path_factory.mktemp("trace") / "t.parquet").trace


def test_our_own_engine_records_the_same(place: Path, trace: Any, tmp_path: Path) -> None:
    from lightspec_bench.runners.torch_drafters import make_drafter
    from lightspec_bench.runners.torch_model import stop_tokens
    from lightspec_bench.runners.torch_source import TorchSource
    from lightspec_bench.runners.torch_targets import load_target

    target = load_target(str(place / "model"))
    drafter = make_drafter(f"model:{place / 'drafter'}", target, DEPTH)
    ours = recorded(TorchSource(target, drafter, stop_tokens(target)), tmp_path / "t.parquet").trace
    assert np.array_equal(trace.num_output_tokens, ours.num_output_tokens)
    assert np.array_equal(trace.num_accepted, ours.num_accepted)
    assert trace.num_draft_tokens is None  # D everywhere
    assert trace.num_accepted.max() >= 2
    np.testing.assert_allclose(trace.confidence, ours.confidence, atol=2e-4)
    np.testing.assert_allclose(trace.entropy, ours.entropy, atol=2e-3)


def test_an_interrupted_recording_goes_on(source: Any, trace: Any, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int, detail: str) -> None:
        if what == "drafts at every position" and done == 2:
            raise KeyboardInterrupt

    out = tmp_path / "t.parquet"
    with pytest.raises(KeyboardInterrupt):
        recorded(source, out, report=stop)
    assert len((tmp_path / "t.parquet.drafts").read_text().splitlines()) == 1 + 2
    with pytest.raises(BenchError, match="expected --resume to go on"):
        recorded(source, out)
    resumed = recorded(source, out, resume=True)
    assert np.array_equal(resumed.trace.num_accepted, trace.num_accepted)
    assert resumed.num_positions < trace.num_positions


def test_a_known_output_must_come_out_again(source: Any, trace: Any) -> None:
    from lightspec_bench.runners.drafts import Answer

    prompt = np.array(prompts()[0])
    with pytest.raises(BenchError, match="the output of request 0 of those without drafts is another"):
        list(source.draft_along([Answer(prompt, np.array([9, 9, 9]))], 3))


def test_logits_are_the_targets_alone(place: Path, source: Any) -> None:
    import torch
    from transformers import LlamaForCausalLM

    text = prompts()[1]
    with torch.no_grad():
        logits = LlamaForCausalLM.from_pretrained(place / "model")(torch.tensor([text])).logits[0, -1]
    best = logits.topk(3).indices.tolist()
    unlikely = int(logits.argmin())
    found = source._bench.logits([text, text], [(best[0], best[2]), (best[0], unlikely)])
    assert found[1] is None
    assert found[0] == pytest.approx((float(logits[best[0]]), float(logits[best[2]])), abs=1e-3)


def test_a_profile_is_a_table_of_served_steps(
    place: Path, source: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lightspec_bench.cli import main
    from lightspec_bench.latency_file import load_latency, read_latency_csv

    source.close()  # one engine at a time
    out = tmp_path / "served.csv"
    with pytest.raises(SystemExit) as ended:
        main([
            "profile", "--runner", "vllm", "--target", str(place / "model"), "--drafter", f"model:{place / 'drafter'}",
            "-k", "3", "--requests", "1,3", "--contexts", "10,30", "-o", str(out), "--json",
        ])  # fmt: skip
    assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {(run["requests"], run["prompt_tokens"], run["drafts"]) for run in document["runs"]} == {
        (number, context, drafts) for number in (1, 3) for context in (10, 30) for drafts in (False, True)
    }
    file = read_latency_csv(out)
    assert file.header["origin"] == "measured"
    assert "served steps" in file.header["source"]
    assert {1, 3} <= {point.rows for point in file.points}
    assert max(point.rows for point in file.points) > 3
    model = load_latency(str(out))
    assert float(model.verify_s(3, 3, 60)) > 0
    assert float(model.draft_pass_s(3, 60)) > 0
