"""A trace recorded from real models, replayed in the simulator, accepts what the real engine accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightspec_bench.core import BenchError, EngineConfig, Run, TraceInfo
from lightspec_bench.planners.static import Static
from lightspec_bench.recording_work import Recording, Store, record_requests
from lightspec_bench.runners import torch_everywhere
from lightspec_bench.runners.drafts import Answer, Drafts
from lightspec_bench.runners.load import Load
from lightspec_bench.runners.requests import Request
from lightspec_bench.runners.simulated import SimulatedRunner
from lightspec_bench.runners.torch_checkpoints import save_head
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_drafters import drafter_names, make_drafter
from lightspec_bench.runners.torch_graphs import Graphs
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_record import greedy_outputs
from lightspec_bench.runners.torch_record_walk import draft_everywhere
from lightspec_bench.runners.torch_runner import TorchOptions, TorchRunner
from lightspec_bench.runners.torch_source import TorchSource
from lightspec_bench.runners.torch_targets import dummy_target, target_place, title
from lightspec_bench.traces.prompts_requests import PromptRequest
from tests.runners import torch_tiny
from tests.support import RoundLatency

DEPTH, CONCURRENCY, MAX_TOKENS = 4, 3, 30


def quiet(stage: str, done: int, total: int, said: str) -> None:
    pass


def prompts(number: int = 8) -> list[PromptRequest]:
    rng = np.random.default_rng(5)
    return [
        PromptRequest(f"p{row}", "made", 0, np.tile(rng.integers(3, torch_tiny.VOCAB, 4), 1 + row % 3))
        for row in range(number)
    ]


def trace_info(drafter: TorchDrafter) -> TraceInfo:
    return TraceInfo(
        name="tiny", target="tiny", drafter=drafter.name, drafter_kind=drafter.shape.kind,
        max_draft_tokens=drafter.shape.max_draft_tokens, dataset="made up", sampling="greedy", indexing="position",
        origin="recorded", made_by="a test", licence="none",
    )  # fmt: skip


def recorded(
    target: TorchModel, drafter: TorchDrafter, folder: Path, resume: bool = False, batch: int = CONCURRENCY
) -> Recording:
    store = Store(folder / "t.parquet", None, resume, {"target": "tiny", "drafter": drafter.name})
    return record_requests(
        TorchSource(target, drafter, (2,)), prompts(), MAX_TOKENS, batch, trace_info(drafter), store, quiet
    )


SPECS = ["ngram:max_n=3", "layer-skip:first=1,last=1", "eagle", "parallel"]


def drafter_of(spec: str, target: TorchModel, folder: Path) -> TorchDrafter:
    if spec in ("eagle", "parallel"):
        save_head(torch_tiny.head(spec), folder / "head")
        spec = str(folder / "head")
    return make_drafter(spec, target, DEPTH)


def by_request(run: Run) -> dict[int, list[int]]:
    columns = ("num_prompt_tokens", "num_output_tokens", "num_steps", "num_spec_steps", "num_verify_tokens")
    counts = np.stack([run.requests[name] for name in (*columns, "num_accepted_tokens")], axis=1)
    return dict(zip(run.requests["request_id"].tolist(), counts.tolist(), strict=True))


@pytest.mark.parametrize("spec", SPECS)
def test_a_replay_under_static_k_accepts_what_the_real_engine_does(spec: str, tmp_path: Path) -> None:
    target = torch_tiny.target()
    drafter = drafter_of(spec, target, tmp_path)
    trace = recorded(target, drafter, tmp_path).trace
    assert trace.num_accepted.any()
    config = EngineConfig(drafter.shape, RoundLatency(), CONCURRENCY)
    sent = [Request(prompt.token_ids.tolist(), MAX_TOKENS) for prompt in prompts()]
    for k in (1, DEPTH):
        real = TorchRunner(target, drafter, sent, config, TorchOptions(stop_tokens=(2,))).run(Static(config, k=k))
        simulated = SimulatedRunner(trace, config, Load(CONCURRENCY, "trace")).run(Static(config, k=k))
        assert by_request(simulated) == by_request(real)
        assert np.array_equal(simulated.totals.outcomes, real.totals.outcomes)


def test_confidences_are_those_of_a_real_run(tmp_path: Path) -> None:
    target = torch_tiny.target()
    drafter = drafter_of("eagle", target, tmp_path)
    trace = recorded(target, drafter, tmp_path).trace
    assert trace.confidence is not None
    assert trace.num_draft_tokens is None
    alone = dict(draft_everywhere(target, drafter, [answer(target, row) for row in range(8)], 1))
    for row in range(8):
        some = slice(trace.offsets[row], trace.offsets[row + 1])
        assert np.array_equal(trace.num_accepted[some], alone[row].num_accepted)
        np.testing.assert_allclose(trace.confidence[some], alone[row].confidence, atol=6e-4)
    assert np.array_equal(trace.confidence, trace.confidence.round(3), equal_nan=True)  # what is kept of them


def test_a_drafter_that_is_a_model_records_the_same_on_padded_passes() -> None:
    """Only after a prompt does it read more rows than fit a captured size."""
    target = torch_tiny.target()
    answers = [answer(target, row) for row in range(4)]

    def kept(graphs: Graphs) -> dict[int, Drafts]:
        target.graphs = graphs
        return dict(draft_everywhere(target, make_drafter("layer-skip:first=1,last=1", target, DEPTH), answers, 3))

    plain, padded = kept(Graphs()), kept(Graphs((1, 2, 4, 8, 16)))
    for row in range(4):
        assert np.array_equal(padded[row].num_accepted, plain[row].num_accepted)
        np.testing.assert_allclose(padded[row].confidence, plain[row].confidence, atol=1e-5)


def answer(target: TorchModel, row: int) -> Answer:
    sent = [Request(prompts()[row].token_ids.tolist(), MAX_TOKENS)]
    return Answer(prompts()[row].token_ids, np.array(dict(greedy_outputs(target, sent, 1, (2,)))[0]))


class Interrupting:
    """A drafter that is stopped by Ctrl-C once it has drafted for `most` outputs."""

    def __init__(self, drafter: TorchDrafter, most: int) -> None:
        self._drafter, self._left = drafter, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def everywhere(self, *text: Any) -> Any:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._drafter.everywhere(*text)  # type: ignore[attr-defined]


def test_an_interrupted_recording_loses_no_finished_prompt(tmp_path: Path) -> None:
    target = torch_tiny.target()
    drafter = drafter_of("eagle", target, tmp_path)
    whole = recorded(target, drafter, tmp_path, batch=2)
    for path in tmp_path.glob("t.parquet.*"):
        path.unlink()
    stopped: Any = Interrupting(drafter, 5)
    with pytest.raises(KeyboardInterrupt):
        recorded(target, stopped, tmp_path, batch=2)
    kept = tmp_path / "t.parquet.drafts"
    num_kept = len(kept.read_text().splitlines()) - 1
    assert num_kept == 5
    kept.write_text(kept.read_text() + '{"row": 7, "num_acc')  # as a machine that lost its power would leave it
    with pytest.raises(BenchError, match=r"t\.parquet\.outputs holds \d finished pieces .* expected --resume to go on"):
        recorded(target, drafter, tmp_path, batch=2)
    resumed = recorded(target, drafter, tmp_path, resume=True, batch=2)
    assert resumed.num_positions == whole.trace.num_output_tokens[_rows_missing(kept, num_kept)].sum()
    for name in ("request_id", "num_output_tokens", "repeats_from", "num_accepted"):
        assert np.array_equal(getattr(resumed.trace, name), getattr(whole.trace, name))
    np.testing.assert_allclose(resumed.trace.confidence, whole.trace.confidence, atol=1.1e-3)


def _rows_missing(path: Path, num_kept: int) -> list[int]:
    rows = [json.loads(line)["row"] for line in path.read_text().splitlines()[1 : 1 + num_kept]]
    return sorted(set(range(8)) - set(rows))


def test_outputs_of_another_recording_are_not_mixed_in(tmp_path: Path) -> None:
    target = torch_tiny.target()
    drafter = drafter_of("ngram", target, tmp_path)
    recorded(target, drafter, tmp_path)
    store = Store(tmp_path / "t.parquet", None, True, {"target": "tiny", "drafter": drafter.name})
    with pytest.raises(BenchError, match="was begun with max_tokens 30, expected 29"):
        record_requests(TorchSource(target, drafter, (2,)), prompts(), 29, 2, trace_info(drafter), store, quiet)


def test_an_output_of_one_token_has_no_position_to_draft_at(tmp_path: Path) -> None:
    target = torch_tiny.target()
    drafter = drafter_of("eagle", target, tmp_path)
    answers = [Answer(np.array([4, 5]), np.array([6])), Answer(np.array([4]), np.array([6, 7]))]
    found = dict(draft_everywhere(target, drafter, answers, 2))
    assert found[0].num_accepted.tolist() == [0]
    assert found[1].num_accepted.tolist() == [0, 0]  # the only token left is the bonus token
    assert found[1].num_draft_tokens.tolist() == [0, DEPTH]
    assert dict(draft_everywhere(target, drafter, [], 2)) == {}


class Walking:
    """A drafter that is asked position by position."""

    everywhere = None

    def __init__(self, drafter: TorchDrafter) -> None:
        self._drafter = drafter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_all_positions_at_once_are_drafted_as_one_by_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = torch_tiny.target()
    drafter = drafter_of(kind, target, tmp_path)
    answers = [answer(target, row) for row in range(3)]
    walking: Any = Walking(drafter)
    walked = dict(draft_everywhere(target, walking, answers, 2))
    monkeypatch.setattr(torch_everywhere, "BLOCK", 7)
    for row, found in draft_everywhere(target, drafter, answers, 2):
        assert found.num_accepted.tolist() == walked[row].num_accepted.tolist()
        assert found.num_draft_tokens.tolist() == walked[row].num_draft_tokens.tolist()
        np.testing.assert_allclose(found.confidence, walked[row].confidence, atol=1e-5)
        np.testing.assert_allclose(found.entropy, walked[row].entropy, atol=1e-4)


def test_specs_that_make_no_drafter_say_why() -> None:
    target = torch_tiny.target()
    for spec, message in (
        ("ngrm", "unknown drafter 'ngrm', did you mean 'ngram'"),
        ("ngram:depth=3", "drafter ngram: unknown option 'depth'"),
        ("eagle", "drafter 'eagle' names no checkpoint, expected eagle:FOLDER"),
        ("layer-skip:first=2,last=1", "first is 2, expected at most last, which is 1"),
        ("layer-skip:first=0,last=9", "expected some of 0 to 3"),
        ("model:/nowhere", "model /nowhere: no config.json in this folder"),
        ("parallel:/nowhere", "head /nowhere: no folder with a config.json"),
    ):
        with pytest.raises(BenchError, match=re.escape(message)):
            make_drafter(spec, target)
    assert drafter_names()[:6] == ["ngram", "suffix", "model", "layer-skip", "eagle", "parallel"]


def test_a_model_may_draft_for_itself(tmp_path: Path) -> None:
    target = torch_tiny.target()
    target.model.save_pretrained(tmp_path / "model")
    drafter = make_drafter(f"model:{tmp_path / 'model'}", target, DEPTH)
    trace = recorded(target, drafter, tmp_path).trace
    left = np.concatenate([np.arange(length)[::-1] for length in trace.num_output_tokens])
    expected = np.minimum(left, DEPTH)
    expected[trace.offsets[:-1]] = 0
    assert trace.num_accepted.tolist() == expected.tolist()


def test_targets_by_name(tmp_path: Path) -> None:
    assert title("smollm2") == "SmolLM2-135M-Instruct"
    assert title("owner/model") == "owner/model"
    assert title(str(tmp_path)) == tmp_path.name
    assert target_place("owner/model") == "owner/model"
    with pytest.raises(BenchError, match="unknown architecture 'qwen3-14', did you mean 'qwen3-14b'"):
        dummy_target("qwen3-14")
    assert dummy_target("tiny", "float32").vocab_size == 512
