"""Training a head: what it learns from, that it learns, and that an interruption changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lightspec_bench.core import BenchError  # noqa: E402
from lightspec_bench.runners.torch_checkpoints import load_head  # noqa: E402
from lightspec_bench.runners.torch_features import Corpus, Text, extract  # noqa: E402
from lightspec_bench.runners.torch_generate import Stop, Wanted, generate  # noqa: E402
from lightspec_bench.runners.torch_texts import TextSettings, TrainPrompt, make_texts  # noqa: E402
from lightspec_bench.runners.torch_train import (  # noqa: E402
    Progress,
    Trainer,
    TrainSettings,
    draft_vocabulary,
    survival,
)
from lightspec_bench.runners.torch_train_head import (  # noqa: E402
    HeadOptions,
    TrainRequest,
    default_taps,
    split,
    target_parts,
    train_head,
)
from lightspec_bench.runners.torch_unroll import SOFT_SHARE, teacher  # noqa: E402
from tests.runners import torch_tiny as tiny  # noqa: E402

TAPS = (1, 2, tiny.LAYERS)


class Tokenizer:
    """Every character is a token; no chat template."""

    chat_template = None
    eos_token_id = 2

    def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
        return SimpleNamespace(input_ids=[3 + ord(letter) % 40 for letter in text])

    def decode(self, tokens: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(chr(60 + token) for token in tokens)


def texts(number: int = 12, length: int = 20) -> list[Text]:
    rng = np.random.default_rng(0)
    return [
        Text("made", f"p{index}", tuple(rng.integers(3, tiny.VOCAB, length).tolist()), 4) for index in range(number)
    ]


def corpus(folder: Path, model: Any, made: list[Text] | None = None) -> Corpus:
    folder.mkdir(exist_ok=True)
    return extract(model, made or texts(), TAPS, folder, lambda done, total: None)


def test_generation_in_a_padded_batch_is_that_of_plain_generate() -> None:
    model = tiny.llama()
    rng = np.random.default_rng(1)
    wanted = [Wanted(tuple(rng.integers(3, tiny.VOCAB, size).tolist())) for size in (3, 9, 5, 14, 1, 7)]
    found = dict(generate(model, wanted, Stop((2, 7, 11), 24), batch_size=4))
    reference = tiny.llama()
    for index, row in enumerate(wanted):
        prompt = torch.tensor([row.prompt])
        plain = reference.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=24, do_sample=False, eos_token_id=[2, 7, 11]
        )
        assert found[index] == plain[0, len(row.prompt) :].tolist()


def test_sampling_depends_on_the_seed_and_zero_temperature_is_greedy() -> None:
    model = tiny.llama()
    wanted = [Wanted((5, 6, 7), 1.0), Wanted((5, 6, 7), 0.0)]
    runs = [dict(generate(model, wanted, Stop((), 12), seed=seed)) for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]
    assert runs[0][1] == runs[2][1]


def test_hidden_states_are_the_models_own(tmp_path: Path) -> None:
    model = tiny.llama()
    made = corpus(tmp_path, model)
    tokens = torch.tensor([texts()[3].tokens])
    with torch.no_grad():
        output = model(input_ids=tokens, output_hidden_states=True)
    rows = slice(int(made.offsets[3]), int(made.offsets[4]))
    for place, tap in enumerate(TAPS[:-1]):
        torch.testing.assert_close(made.taps[rows, place].float(), output.hidden_states[tap][0], atol=0.05, rtol=0.01)
    normed = model.model.norm(made.taps[rows, -1].float())
    torch.testing.assert_close(normed, output.hidden_states[-1][0], atol=0.05, rtol=0.01)
    assert made.best[rows].tolist() == output.logits[0].argmax(-1).tolist()
    assert made.learn[rows].tolist() == [False] * 4 + [True] * 15 + [False]


def test_a_corpus_that_was_cut_is_refused(tmp_path: Path) -> None:
    corpus(tmp_path, tiny.llama())
    data = tmp_path / "features.bin"
    data.write_bytes(data.read_bytes()[:-2])
    with pytest.raises(BenchError, match=r"features\.bin: 34558 bytes, expected 34560 for 240 rows; delete the folder"):
        corpus(tmp_path, tiny.llama())


def test_the_teacher_mixes_the_distribution_with_the_best_token() -> None:
    hidden, rows = torch.randn(1, 2, 4), torch.randn(3, 4)
    place_of = torch.tensor([-1, 0, 1, 2])
    made = teacher(hidden, rows, torch.tensor([[2, 0]]), place_of)  # token 2 is place 1; token 0 is not drafted
    chances = (hidden @ rows.T).softmax(-1)
    expected = chances.clone()
    expected[0, 0] = SOFT_SHARE * chances[0, 0] + (1 - SOFT_SHARE) * torch.tensor([0.0, 1.0, 0.0])
    torch.testing.assert_close(made.wanted, expected)
    assert made.place.tolist() == [[1, -1]]


def test_the_draft_vocabulary_is_what_the_target_says_most(tmp_path: Path) -> None:
    made = corpus(tmp_path, tiny.llama())
    counts = np.bincount(made.best[made.learn], minlength=tiny.VOCAB)
    counts += np.bincount(made.tokens[made.learn], minlength=tiny.VOCAB)
    chosen = draft_vocabulary(made, 10, tiny.VOCAB).numpy()
    assert sorted(chosen) == list(chosen)
    assert counts[chosen].min() >= np.delete(counts, chosen).max()


def trainer(kind: str, made: Corpus, model: Any, checkpoint: Path) -> Trainer:
    parts = target_parts(model, TAPS)
    settings = TrainSettings(epochs=4, batch_texts=3, steps=3, learning_rate=0.01, max_text_tokens=16)
    return Trainer(tiny.head(kind), parts, made, np.arange(12), settings, checkpoint)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_an_interrupted_training_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    model = tiny.llama()
    made = corpus(tmp_path / "corpus", model)
    whole = trainer(kind, made, model, tmp_path / "whole.pt")
    seen: list[Progress] = []
    whole.run(seen.append)
    assert [now.iteration for now in seen] == list(range(1, 17))
    assert np.mean([now.loss for now in seen[-4:]]) < np.mean([now.loss for now in seen[:4]])

    def interrupt(now: Progress) -> None:
        if now.iteration == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(kind, made, model, tmp_path / "half.pt").run(interrupt)
    half = trainer(kind, made, model, tmp_path / "half.pt")
    half.run(lambda now: None)
    assert (half.iteration, half.num_rows_seen) == (whole.iteration, whole.num_rows_seen)
    for name, weight in whole.head.state_dict().items():
        torch.testing.assert_close(half.head.state_dict()[name], weight)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    model = tiny.llama()
    made = corpus(tmp_path / "corpus", model)
    trainer("eagle", made, model, tmp_path / "one.pt").run(lambda now: None)
    other = trainer("eagle", made, model, tmp_path / "one.pt")
    other.settings = replace(other.settings, epochs=8)
    with pytest.raises(BenchError, match=r"one\.pt: made for 16 iterations, this run has 32"):
        other.run(lambda now: None)


def test_survival_counts_what_a_chain_would_have_right(tmp_path: Path) -> None:
    """Against drafts compared one by one: right at depth d where the first d are the target's."""
    from lightspec_bench.runners.torch_train import Scene
    from lightspec_bench.runners.torch_unroll import unrolled

    model, head = tiny.llama(), tiny.head("eagle")
    made = corpus(tmp_path / "corpus", model)
    parts, settings = target_parts(model, TAPS), TrainSettings(batch_texts=5)
    found = survival(head, parts, made, np.arange(12), settings, 3)
    scene = Scene.of(head, parts, settings)
    right, counted = np.zeros(3), np.zeros(3)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for number in range(12):
            batch = scene.texts(made, np.array([number]))
            outputs = [output for output, _ in unrolled(head, batch, scene.rotary, 3)]
            picks = [head.draft_token_ids[head.logits(output, scene.rows)[0].argmax(-1)] for output in outputs]
            for entry in range(20):
                good = True
                for depth in range(3):
                    row = entry + depth + 1
                    if not 4 <= row < 19:
                        good = False
                        counted[depth] += 0
                        continue
                    good = good and int(picks[depth][entry]) == int(batch.best[0, row])
                    right[depth] += good
                    counted[depth] += 1
    np.testing.assert_allclose(found, right / counted)


def test_one_prompt_is_never_on_both_sides() -> None:
    made = [Text("s", f"p{number}{suffix}", (1, 2, 3), 1) for number in range(200) for suffix in ("", "#1", "#2")]
    trained, held_out = split(made)
    names = [{made[index].prompt.split("#")[0] for index in side} for side in (trained, held_out)]
    assert not names[0] & names[1]
    assert len(trained) + len(held_out) == 600
    assert 3 <= len(names[1]) <= 25


def test_texts_are_made_once(tmp_path: Path) -> None:
    model, tokenizer = tiny.llama(), Tokenizer()
    prompts = [TrainPrompt(f"p{number}", "made", "hello" * number) for number in range(1, 5)]
    settings = TextSettings(max_tokens=6, num_samples=2, num_self_prompts=3)
    made = make_texts(model, tokenizer, prompts, settings, tmp_path, lambda done, total: None)
    assert len(made) == 4 * 3 + len((tmp_path / "self-prompts.jsonl").read_text().splitlines())
    lines = (tmp_path / "texts.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "texts.jsonl").write_text("".join(lines[:5]) + lines[5][:20])  # cut in the middle of a line
    again = make_texts(model, tokenizer, prompts, settings, tmp_path, lambda done, total: None)
    assert again[:5] == made[:5]
    assert {(text.prompt, text.temperature) for text in again} == {(text.prompt, text.temperature) for text in made}
    assert len(again) == len(made)


@pytest.mark.parametrize("kind", ["eagle", "parallel"])
def test_from_prompts_to_a_head_with_its_record(kind: str, tmp_path: Path) -> None:
    model, tokenizer = tiny.llama(), Tokenizer()
    request = TrainRequest(
        kind=kind,
        target="acme/tiny",
        out=tmp_path / "head",
        prompts=[TrainPrompt(f"p{number}", "made", "hello" * (number % 5 + 1)) for number in range(24)],
        text=TextSettings(max_tokens=12),
        train=TrainSettings(epochs=1, steps=3),
        head=HeadOptions(intermediate_size=16, draft_vocab_size=30, num_slots=4, rank=4),
        licences={"made": "CC0"},
    )
    stages: list[str] = []
    record = train_head(request, model, tokenizer, lambda stage, done, total, said: stages.append(stage))
    assert sorted(set(stages)) == ["hidden states", "texts", "training"]
    assert json.loads((tmp_path / "head" / "training.json").read_text()) == json.loads(json.dumps(record))
    assert record["licences"] == {"made": "CC0"}
    assert len(record["held_out_survival"]) == (8 if kind == "eagle" else 4)
    head = load_head(tmp_path / "head")
    assert (head.settings.kind, head.settings.target, head.settings.taps) == (kind, "tiny", (1, 2, 4))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["head"]
    further = replace(request, init=tmp_path / "head", out=tmp_path / "further")
    assert train_head(further, model, tokenizer, lambda *_: None)["init"] == "head"


def test_default_taps_are_four_layers_from_early_to_last() -> None:
    assert default_taps(30) == (2, 15, 27, 30)
    assert default_taps(2) == (1, 2)
