"""Passes at fixed sizes give what they give without padding, and can be captured: nothing in them asks the host."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GPT2Config, LlamaConfig, MistralConfig, Qwen3Config

from lightspec_bench.core import Batch, BenchError, IntArray, Plan
from lightspec_bench.runners.torch_accept import Sampling
from lightspec_bench.runners.torch_cache import SlotCache
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_dummy import dummy_drafter
from lightspec_bench.runners.torch_engine import Engine
from lightspec_bench.runners.torch_graphs import CUDA_SIZES, Graphed, Graphs, graphed_rows, make_graphs
from lightspec_bench.runners.torch_lm import LmDrafter, without_layers
from lightspec_bench.runners.torch_model import TorchModel, random_model
from lightspec_bench.runners.torch_ngram import NgramDrafter
from lightspec_bench.runners.torch_rows import make_rows
from tests.runners.torch_recorded import RecordedCapture
from tests.runners.torch_support import VOCABULARY, Adversary, Fixed, runner, some_requests, tiny_config, tiny_model

CPU, DEPTH = torch.device("cpu"), 4
DRAFTERS: dict[str, Callable[[TorchModel], TorchDrafter]] = {
    "ngram": lambda target: NgramDrafter(DEPTH),
    "model": lambda target: LmDrafter(tiny_model(seed=1), DEPTH),
    "layer skip": lambda target: LmDrafter(without_layers(target, [1]), DEPTH),
    "eagle": lambda target: dummy_drafter("eagle", target, DEPTH),
    "parallel": lambda target: dummy_drafter("parallel", target, DEPTH),
}


def test_sizes_are_those_of_the_latency_format() -> None:
    assert make_graphs(CPU).sizes == make_graphs(CPU, " none ").sizes == ()
    assert make_graphs(CPU, "1,2,4-12/4").sizes == (1, 2, 4, 8, 12)
    assert (make_graphs(CPU, CUDA_SIZES).sizes[:5], make_graphs(CPU, CUDA_SIZES).sizes[-1]) == ((1, 2, 4, 8, 16), 512)
    with pytest.raises(BenchError, match="graph sizes is '4,2', expected ascending sizes, or none"):
        make_graphs(CPU, "4,2")


def test_a_pass_has_the_sizes_up_to_what_holds_all_its_rows() -> None:
    graphs = Graphs((1, 2, 4, 8))
    assert graphs.up_to("a", 3) == (1, 2, 4)
    assert graphs.up_to("a", 4) == (1, 2, 4)
    assert graphs.up_to("a", 100) == (1, 2, 4, 8)
    assert replace(graphs, refused={"a": "why"}).up_to("a", 3) == ()


# ---------------------------------------------------------------------- one pass


def ragged(rng: np.random.Generator, number: int, slots: int, width: int, longest: int) -> tuple[IntArray, ...]:
    """Slots, starts and counts that make `number` rows, at most `width` of a slot."""
    while True:
        chosen = np.flatnonzero(rng.random(slots) < rng.random())
        counts = rng.integers(1, width + 1, len(chosen))
        if counts.sum() == number:
            return chosen, rng.integers(0, longest - width, len(chosen)), counts


MODELS: dict[str, Callable[[], TorchModel]] = {
    "llama": lambda: tiny_model(LlamaConfig),
    "qwen3": lambda: tiny_model(Qwen3Config),
    "sliding window": lambda: tiny_model(MistralConfig, sliding_window=5),
    "gpt2": lambda: random_model(
        GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64), "tiny gpt2"
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("capture", ["called", "recorded"])
@torch.inference_mode()
def test_rows_of_any_number_are_what_they_are_without_padding(name: str, capture: str) -> None:
    model, rng = MODELS[name](), np.random.default_rng(0)
    slots, width, longest = 5, 4, 32
    caches = [SlotCache(slots, longest, CPU) for _ in range(2)]
    graphs = Graphs((1, 3, 8, 12), RecordedCapture() if capture == "recorded" else Graphs().capture)
    model.watch((1, 2))

    def run(rows: Any, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = model.forward(tokens, rows, caches[1], None, (1, 2))
        assert out.features is not None
        return out.logits, out.features

    fixed = graphed_rows("a pass", run, graphs, caches[1], width, 12, [torch.zeros(0, dtype=torch.int64)])
    everything = np.arange(slots), np.zeros(slots, np.int64), np.full(slots, longest)
    filled = make_rows(*everything, CPU)
    texts = torch.as_tensor(rng.integers(0, VOCABULARY, filled.num_rows))
    for each in caches:
        model.forward(texts, filled, each)
    for number in [*range(1, 13), *rng.integers(1, 13, 12)]:
        rows = make_rows(*ragged(rng, number, slots, width, longest), CPU)
        tokens = torch.as_tensor(rng.integers(0, VOCABULARY, number))
        expected = model.forward(tokens, rows, caches[0], None, (1, 2))
        assert fixed.takes(number)
        logits, features = fixed(rows.slot, rows.position, tokens)
        torch.testing.assert_close(logits, expected.logits, atol=2e-5, rtol=1e-4)
        torch.testing.assert_close(features, expected.features, atol=2e-5, rtol=1e-4)
        for layer in range(model.num_layers):  # of padding, only the scratch slot ever hears
            for own, other in zip(caches[0].layer(layer), caches[1].layer(layer), strict=True):
                torch.testing.assert_close(own[:slots], other[:slots], atol=2e-5, rtol=1e-4)
    assert not fixed.takes(13)
    assert not fixed.takes(0)


def test_what_is_captured_first_is_what_needs_most() -> None:
    captured: list[int] = []

    def run(values: torch.Tensor) -> tuple[torch.Tensor]:
        captured.append(len(values))
        return (values + 1,)

    capture = RecordedCapture()
    ahead = Graphed("a pass", run, Graphs((2, 4, 8), capture, ahead=True), 5, [torch.zeros(0, 3)])
    assert captured == [8, 8, 4, 4, 2, 2]  # each once to warm up, once to record
    assert capture.replays == [0, 0, 0]
    torch.testing.assert_close(ahead(torch.ones(3, 3))[0], torch.full((3, 3), 2.0))
    assert capture.replays == [0, 1, 0]
    assert captured == [8, 8, 4, 4, 2, 2]


def test_padding_never_holds_what_an_earlier_batch_left() -> None:
    seen: list[list[int]] = []

    def run(slot: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor]:
        seen.append(slot.tolist())
        return (slot + other,)

    row = torch.zeros(0, dtype=torch.int64)
    fixed = Graphed("a pass", run, Graphs((2, 4)), 4, (row, row), (9,))
    for size in (4, 1, 3):
        values = torch.arange(size)
        assert fixed.takes(size)
        assert fixed(values, values)[0].tolist() == [2 * value for value in range(size)]
    assert seen == [[0, 1, 2, 3], [0, 9], [0, 1, 2, 9]]


# ---------------------------------------------------------------------- the engine


@cache
def sent() -> list[Any]:
    return some_requests(40)


def decoded(name: str, graphs: Graphs, lag_steps: int = 0) -> tuple[dict[int, list[int]], Adversary]:
    target = tiny_model()
    target.graphs = graphs
    real = runner(target, DRAFTERS[name](target), sent(), concurrency=6, lag_steps=lag_steps)
    planner = Adversary(DEPTH)
    real.run(planner)
    return real.outputs, planner


@pytest.mark.parametrize("name", DRAFTERS)
def test_an_engine_whose_passes_are_recorded_decodes_and_drafts_the_same(name: str) -> None:
    capture = RecordedCapture()
    outputs, planner = decoded(name, Graphs((1, 2, 5, 12, 20), capture))  # a full batch has 30 rows
    expected, plain = decoded(name, Graphs())
    assert outputs == expected
    assert len(planner.steps) == len(plain.steps)
    for step, other in zip(planner.steps, plain.steps, strict=True):
        for field in ("request_id", "num_draft_tokens", "num_verify_tokens", "num_accepted_tokens"):
            np.testing.assert_array_equal(getattr(step, field), getattr(other, field))
        np.testing.assert_allclose(step.confidence, other.confidence, rtol=1e-3, atol=1e-5)
    assert sum(capture.replays) > (len(planner.steps) if name == "ngram" else 2 * len(planner.steps))


def test_a_pass_that_cannot_be_captured_runs_as_it_is_and_says_so_once() -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    graphs = Graphs((1, 2, 4, 8, 16, 32), RecordedCapture())

    def outputs(graphs: Graphs) -> dict[int, list[int]]:
        target = tiny_model(rope_parameters=rope)
        target.graphs = graphs
        real = runner(target, NgramDrafter(DEPTH), sent(), concurrency=6)
        real.run(Adversary(DEPTH))
        return real.outputs

    with pytest.warns(UserWarning, match=r"^the pass of tiny LlamaConfig cannot be captured as a CUDA graph, it runs"):
        found = outputs(graphs)
    assert list(graphs.refused) == ["the pass of tiny LlamaConfig"]
    with warnings.catch_warnings(action="error"):
        assert outputs(graphs) == found == outputs(Graphs())  # nor is it tried again


def test_running_out_of_memory_is_not_taken_for_a_pass_that_cannot_be_captured() -> None:
    def full(run: Callable[[], None]) -> Callable[[], None]:
        raise torch.OutOfMemoryError("no memory")

    fixed = Graphed("a pass", lambda values: (values,), Graphs((4,), full), 4, [torch.zeros(0)])
    with pytest.raises(torch.OutOfMemoryError):
        fixed.takes(2)


@pytest.mark.parametrize("name", DRAFTERS)
def test_an_engines_memory_is_freed_when_it_goes(name: str) -> None:
    target = tiny_model()
    target.graphs = Graphs((4, 32), ahead=True)
    gc.collect()
    gc.disable()
    try:
        drafter = DRAFTERS[name](target)
        engine = Engine(target, drafter, 2, 32, Sampling(), (), DEPTH)
        engine.prefill(np.arange(2), [np.arange(3), np.arange(5)], np.array([9, 9]))
        engine.draft(np.arange(2), np.array([2, 3]), None)
        caches = [weakref.ref(engine.cache), weakref.ref(engine._pass)]
        del engine, drafter
        assert [held() for held in caches] == [None, None]
    finally:
        gc.enable()


def test_passes_can_be_captured_before_the_first_step() -> None:
    target, capture = tiny_model(), RecordedCapture()
    target.graphs = Graphs((1, 2, 5, 12, 20, 40), capture)
    captured: list[int] = []

    class Watching(Fixed):
        def plan(self, batch: Batch) -> Plan:
            captured.append(len(capture.replays))
            return super().plan(batch)

    for ahead in (True, False):
        real = runner(target, NgramDrafter(DEPTH), sent()[:6], concurrency=2, capture_ahead=ahead)
        real.run(Watching([DEPTH]))
    assert captured[0] == 4  # two requests have up to 10 rows
    assert captured.count(4) == len(captured) // 2 + 1
    assert captured[-1] <= 8


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "dtype"), [*[(name, "bfloat16") for name in DRAFTERS], ("ngram", "float32"), ("eagle", "float32")]
)
def test_a_cuda_device_decodes_the_same_from_graphs(name: str, dtype: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    target = random_model(tiny_config(), "tiny", dtype, "cuda")
    drafter = LmDrafter(target, DEPTH) if name == "model" else DRAFTERS[name](target)
    found = []
    for sizes in ("1,2,5,12,20", "none"):
        target.graphs = make_graphs(target.device, sizes)
        real = runner(target, drafter, sent(), concurrency=6, lag_steps=1)
        real.run(Adversary(DEPTH))
        found.append(real.outputs)
        assert not target.graphs.refused
    same = sum(found[0][row] == found[1][row] for row in found[0])
    # In half precision near-ties flip with the number of rows, in any engine.
    assert same == len(sent()) if dtype == "float32" else same > len(sent()) // 2
