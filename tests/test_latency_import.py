"""Latency tables of others' profiles: vidur's operators summed, latencies per batch size, and what they lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lightspec_bench.cli_latency import app
from lightspec_bench.core import BenchError
from lightspec_bench.latency_file import load_latency, read_latency_csv
from lightspec_bench.latency_import import import_latency

OPERATORS = (
    "emb", "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
SHAPE = {"n_head": 4, "n_kv_head": 2, "n_embd": 1000, "vocab_size": 50_000}
LABELS = {"device": "a GPU", "model": "a model", "date": "2024"}


def vidur(*rows: tuple[int, int, float]) -> str:
    """A profile in which every operator takes the same time: rows of (tokens, workers, milliseconds)."""
    columns = [*(f"time_stats.{op}.median" for op in OPERATORS), *SHAPE, "num_tokens", "num_tensor_parallel_workers"]
    lines = [",".join(columns)]
    for tokens, workers, ms in rows:
        lines.append(",".join(map(str, [*[ms] * len(OPERATORS), *SHAPE.values(), tokens, workers])))
    return "\n".join(lines) + "\n"


def imported(folder: Path, text: str, **options: Any) -> Path:
    (folder / "profile").write_text(text, "utf-8")
    import_latency(folder / "profile", folder / "out.csv", None, {**LABELS, **options})
    return folder / "out.csv"


def refused(folder: Path, text: str, **options: Any) -> str:
    with pytest.raises(BenchError) as caught:
        imported(folder, text, **options)
    assert not (folder / "out.csv").exists()
    return str(caught.value).removeprefix(f"{folder / 'profile'}")


def test_operators_are_summed_over_layers_and_profiles_of_one_size_averaged(tmp_path: Path) -> None:
    """10 layers of nine operators, the embedding and a final norm: 92 operators."""
    out = imported(tmp_path, vidur((1, 1, 0.1), (1, 1, 0.3), (8, 1, 0.5), (8, 2, 9.0)), layers=10)
    assert [(point.rows, point.ms) for point in read_latency_csv(out).points] == [(1, 18.4), (8, 46.0)]
    header = read_latency_csv(out).header
    assert (header["origin"], header["context_cost"]) == ("modelled", "0")
    assert "Attention and the output matrix are not in the profile" in header["note"]


def test_what_the_profile_lacks_is_estimated_where_the_device_is_given(tmp_path: Path) -> None:
    """50 M weights in 16 bits at 1 TB/s and 100 TFLOP/s: 0.1 ms to read, 0.001 ms a row; KV 2 x 2 x 250 x 2 bytes."""
    out = imported(tmp_path, vidur((100, 1, 0.0)), layers=10, tb_per_s=1.0, tflops=100.0)
    assert read_latency_csv(out).points[0].ms == pytest.approx(0.1 * 2**0.5, abs=1e-4)
    assert float(read_latency_csv(out).header["context_cost"]) == pytest.approx(10 * 2000 / 1e6)


def test_workers_share_the_output_matrix_and_communication_is_named_as_missing(tmp_path: Path) -> None:
    out = imported(tmp_path, vidur((100, 2, 0.0)), layers=10, tensor_parallel=2, tb_per_s=1.0, tflops=100.0)
    assert read_latency_csv(out).points[0].ms == pytest.approx(0.05 * 2**0.5, abs=1e-4)
    assert "Communication between workers" in read_latency_csv(out).header["note"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (vidur((1, 1, 0.1)), {}, ": the number of layers is not in the file, expected --layers N"),
        (vidur((1, 2, 0.1)), {"layers": 2}, ": no rows of 1 tensor-parallel workers, expected one of [2]"),
        (vidur((1, 1, 0.1), (2, 1, -0.1)), {"layers": 2},
         ":3: time_stats.input_layernorm.median is '-0.1', expected a number from 0 up"),
        (vidur((1, 1, 0.1))[:-5], {"layers": 2}, ":2: 14 values, expected 16: is the file cut off?"),
        (vidur((1, 1, 0.1)).replace("n_embd", "n"), {"layers": 2},
         ":1: column n_embd is missing, expected a vidur mlp.csv"),
        (vidur((1, 1, 0.1)) + vidur((2, 1, 0.1)).partition("\n")[2].replace("1000", "999"), {"layers": 2},
         ":3: another model's shape than in the rows before, expected one model"),
        (vidur((1, 1, 0.1)), {"layers": 2, "device": None}, ": device not in the file, expected --device TEXT"),
        (vidur((1, 1, 0.1)), {"layers": 2, "tb_per_s": 2.0},
         ": --tb-per-s is 2.0 and --tflops None, expected both above 0, or neither"),
        (vidur((1, 1, 0.1)), {"layers": 2, "tb_per_s": -2.0, "tflops": 1.0},
         ": --tb-per-s is -2.0 and --tflops 1.0, expected both above 0, or neither"),
        ("a,b\n1,2\n", {}, " is in no known format, expected a CSV of operators timed one by one or a JSON of "
         "inter-token latency per batch size"),
    ],
)  # fmt: skip
def test_bad_vidur_files(text: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text, **options) == message


def configuration(batch: float, itl: float, gpu: str = "H100") -> dict[str, Any]:
    return {"avg_batch_size": batch, "median_itl_ms": itl, "gpu_model": gpu, "num_gpus": 1, "max_num_seqs": 256}


def test_latencies_per_batch_size_are_whole_steps(tmp_path: Path) -> None:
    """As the ML.ENERGY leaderboard publishes them: host time is inside, the drafter is given apart."""
    document = {
        "model_id": "Qwen/Qwen3-14B", "weight_precision": "bfloat16",
        "configurations": [configuration(15.97, 13.34), configuration(7.99, 12.54), configuration(16.02, 14.0)],
    }  # fmt: skip
    out = imported(tmp_path, json.dumps(document), device=None, model=None, draft_fixed_ms=0.4)
    file = read_latency_csv(out)
    assert [(p.rows, p.requests, p.ms) for p in file.points] == [(8, 8, 12.54), (16, 16, 13.34)]
    labels = [file.header[key] for key in ("device", "model", "dtype", "origin", "host_step_ms")]
    assert labels == ["H100, 1 GPU", "Qwen/Qwen3-14B", "bfloat16", "quoted", "0.0"]
    latency = load_latency(str(out))
    assert float(latency.verify_s(8, 8, 5000)) == pytest.approx(0.01254)
    assert float(latency.draft_pass_s(8, 0)) == pytest.approx(0.0004)


@pytest.mark.parametrize(
    ("document", "options", "message"),
    [
        ([configuration(8, 1.0), configuration(8, 2.0, "B200")], {},
         ": several gpu_model (B200, H100), expected --gpu to pick one"),
        ([configuration(8, 1.0)], {"gpu": "A100"}, ": no configuration with gpu_model A100, expected one of H100"),
        ([configuration(8, 1.0), configuration(8, -2.0)], {},
         ": configuration 1: median_itl_ms is -2.0, expected a number above 0"),
        ([{"avg_batch_size": 8}], {}, ": configuration 0 has no median_itl_ms, expected a number above 0"),
        ({"configurations": []}, {}, ": it has no list of configurations, expected batch sizes and latencies"),
    ],
)  # fmt: skip
def test_bad_latency_files(document: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert refused(tmp_path, json.dumps(document), **options) == message


def test_a_json_that_is_cut_off_is_one_sentence(tmp_path: Path) -> None:
    assert refused(tmp_path, json.dumps([configuration(8, 1.0)])[:-9]).startswith(": is cut off or not JSON (")


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "mlp.csv").write_text(vidur((1, 1, 0.1), (8, 1, 0.5)))
    out = tmp_path / "out.csv"
    arguments = ["import", str(tmp_path / "mlp.csv"), "-o", str(out), "--layers", "10", "--device", "d", "--model", "m"]
    result = CliRunner().invoke(app, [*arguments, "--date", "2024"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{out}: 2 sizes, 1 to 8 rows\nnote: A step was never measured: 10 x (")
    assert "no drafter is priced" in result.stdout
    listed = json.loads(CliRunner().invoke(app, ["list", "--json"], catch_exceptions=False).stdout)
    assert {"h200-qwen3-14b", "h100-internlm-20b"} <= {row["name"] for row in listed}
    assert "h100-internlm-20b" in CliRunner().invoke(app, ["list"], catch_exceptions=False).stdout
