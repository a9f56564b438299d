"""Latency files: read, written, shipped, named with options, and one clear sentence for each mistake."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.latency import HostCost, LinearLatency, RooflineLatency, TableLatency
from lightspec_bench.latency_file import (
    Point,
    build_latency,
    describe_latency,
    latency_names,
    load_latency,
    parse_sizes,
    read_latency_csv,
    write_latency_csv,
)
from lightspec_bench.latency_format import LINE_KEYS, parse_latency_text

HEADER = """\
# format: lightspec-bench-latency 1
# kind: table
# name: tiny
# device: one GPU
# model: a model
# dtype: bfloat16
# engine: an engine
# date: 2026-11-29
# origin: measured
# source: a profile
#   of two lines
# licence: own work
# host_step_ms: 2.0
# host_request_us: 10
# drafter_step_ms: 0.5
# drafter_request_us: 20
"""
GRAPHS = "# graph_limit: 2\n"
ROWS = """\
part,rows,requests,context_tokens,ms
target,2,2,0,5.0
target,1,1,0,4.0
target,2,2,1000,6.0
draft,1,1,0,0.5
draft,3,1,0,0.75
"""
TINY = HEADER + GRAPHS + ROWS


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.csv"
    path.write_text(TINY, encoding="utf-8")
    return path


def test_a_file_becomes_a_model(tiny):
    """Rows in any order; captured up to 2 rows, in proportion beyond; 1 us per context token; the drafter has none."""
    latency = load_latency(str(tiny))
    assert (latency.name, latency.origin, latency.source) == ("tiny", "measured", "a profile of two lines")
    assert latency.graph_sizes.tolist() == [1, 2]
    ms = [1e3 * float(latency.verify_s(*shape)) for shape in ((1, 1, 0), (2, 2, 500), (4, 2, 0))]
    np.testing.assert_allclose(ms, [4, 5.5, 10])
    assert 1e3 * float(latency.draft_pass_s(2, 999)) == pytest.approx(0.625)
    assert 1e3 * float(latency.host_s(100, speculating=False)) == pytest.approx(3.0)
    assert 1e3 * float(latency.host_s(100, speculating=True)) == pytest.approx(5.5)


def test_spreadsheets_and_windows_write_the_same_file(tiny):
    tiny.write_bytes(b"\xef\xbb\xbf" + TINY.replace("\n", "\r\n").encode())
    assert read_latency_csv(tiny).points == parse_latency_text(TINY, "x").points


def test_writing_and_reading_back(tmp_path, tiny):
    file = read_latency_csv(tiny)
    write_latency_csv(tmp_path / "copy.csv", file.header, file.points)
    copy = read_latency_csv(tmp_path / "copy.csv")
    assert (copy.header, copy.points) == (file.header, file.points)


def test_a_bad_file_is_not_written(tmp_path, tiny):
    """The old file stays, nothing else is left in the folder."""
    header = {key: value for key, value in read_latency_csv(tiny).header.items() if key != "format"}
    with pytest.raises(BenchError, match=r"ms is '-1.0', expected a number from 0 up"):
        write_latency_csv(tiny, header, [Point("target", 1, 1, 0, -1.0)])
    with pytest.raises(BenchError, match="a step of 2 rows costs nothing"):
        write_latency_csv(tiny, {**header, "context_cost": "100"}, [Point("target", 2, 1, 1000, 1.0)])
    assert tiny.read_text(encoding="utf-8") == TINY
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.csv"]


def test_the_tables_that_ship():
    """Each names what it is, where it comes from and under which licence."""
    kinds = {
        "b300-deepseek-v4-flash": (TableLatency, "quoted"),
        "cpu-smollm2-135m-bf16": (TableLatency, "measured"),
        "cpu-smollm2-135m-fp32": (TableLatency, "measured"),
        "h100-internlm-20b": (TableLatency, "modelled"),
        "h100-llama-3.1-8b": (LinearLatency, "quoted"),
        "h200-qwen3-14b": (TableLatency, "modelled"),
        "h200-qwen3-14b-roofline": (RooflineLatency, "modelled"),
    }
    assert latency_names() == list(kinds)
    for name, (kind, origin) in kinds.items():
        latency, labels = load_latency(name), describe_latency(name)
        assert (type(latency), latency.name, latency.origin, labels["origin"]) == (kind, name, origin, origin)
        assert "assum" in labels["note"]  # the host terms are nowhere measured, and say so
        assert float(latency.host_s(8, speculating=True)) > float(latency.host_s(8, speculating=False))


def test_lightllm_would_capture_552_sizes_for_11_draft_tokens():
    sizes = load_latency("h200-qwen3-14b").graph_sizes
    assert (len(sizes), sizes[383], sizes[384], sizes[-1]) == (552, 384, 400, 3072)


def test_options_change_the_host_terms(tiny):
    def host(spec: str) -> HostCost:
        return load_latency(spec).host

    assert host("h200-qwen3-14b") == HostCost(0.002, 0.0, 0.0003, 5e-6)
    assert host("h200-qwen3-14b:host_step_ms=4,host_request_us=33") == HostCost(0.004, 33 / 1e6, 0.0003, 5e-6)
    assert host(f"{tiny}:drafter_step_ms=0,drafter_request_us=0") == HostCost(0.002, 1e-5, 0.0, 0.0)


def test_the_preset_of_vllm_49548_yields_to_single_terms():
    host = load_latency("h200-qwen3-14b:drafter_step_ms=1,host=vllm-49548").host
    assert (host.step_s, host.request_s, host.drafter_step_s) == (0.002, 0.0, 0.001)
    assert host.drafter_request_s == pytest.approx((16.656 - 0.943) / 187 / 1e3)


@pytest.mark.parametrize("name", ["a:b.csv", "a=1.csv", "a:b=1,c=2.csv"])
def test_paths_may_look_like_options(tmp_path, name):
    path = tmp_path / name
    path.write_text(TINY, encoding="utf-8")
    assert load_latency(str(path)).name == "tiny"
    assert load_latency(f"{path}:host_step_ms=7").host.step_s == 0.007


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("h200-qwen3-14", "unknown latency 'h200-qwen3-14', did you mean 'h200-qwen3-14b'?"),
        ("no/such.csv", "no/such.csv: no such latency file"),
        ("no/such.csv:host_step_ms=1", "no/such.csv: no such latency file"),
        ("C:\\tables\\x.csv", "C:\\tables\\x.csv: no such latency file"),
        ("h200-qwen3-14b:host_step=1", "latency h200-qwen3-14b: unknown option 'host_step', did you mean"),
        ("h200-qwen3-14b:fast", "latency h200-qwen3-14b: 'fast' is not an option, expected key=value"),
        ("h200-qwen3-14b:host_step_ms=-1", "option host_step_ms is '-1.0', expected a number from 0 up"),
        ("h200-qwen3-14b:host_step_ms=.nan", "option host_step_ms is 'nan', expected a number from 0 up"),
        ("h200-qwen3-14b:host_step_ms=slow", "option host_step_ms is 'slow', expected float"),
        ("h200-qwen3-14b:host=vllm-49549", "option host is 'vllm-49549', did you mean 'vllm-49548'?"),
    ],
)  # fmt: skip
def test_specs_that_name_nothing(spec, message):
    with pytest.raises(BenchError, match=re.escape(message)):
        load_latency(spec)


def test_what_cannot_be_read(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"PAR1\xff\xfe\x00")
    for path, message in ((tmp_path / "binary.csv", "not UTF-8 text"), (tmp_path, "cannot be read")):
        with pytest.raises(BenchError, match=message):
            read_latency_csv(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# format: lightspec-bench-latency 1\n", "", "x.csv: header key 'format' is missing, expected '# format: "),
        ("latency 1\n", "latency 2\n", "x.csv:1: format is 'lightspec-bench-latency 2', expected '# format: lightspec"),
        ("kind: table", "kind: tabel", "x.csv:2: kind is 'tabel', did you mean 'table'?"),
        ("# kind: table\n", "", "x.csv: header key 'kind' is missing, expected one of linear, roofline, table"),
        ("# device: one GPU\n", "", "x.csv: header key 'device' is missing or empty, expected '# device: ...'"),
        ("device: one GPU", "device:", "x.csv:4: header key 'device' is missing or empty"),
        ("# drafter_step_ms: 0.5\n", "", "x.csv: header key 'drafter_step_ms' is missing"),
        ("licence", "license", "x.csv:12: unknown header key 'license', did you mean 'licence'?"),
        ("origin: measured", "origin: measurd", "x.csv:9: origin is 'measurd', did you mean 'measured'?"),
        ("2026-11-29", "yesterday", "x.csv:8: date is 'yesterday', expected YYYY-MM-DD, YYYY-MM or YYYY"),
        ("# dtype: bfloat16", "# dtype bfloat16", "x.csv:6: '# dtype bfloat16' is not a header line"),
        ("# dtype:", "# model:", "x.csv:6: header key 'model' is given twice, first in line 5"),
        ("host_step_ms: 2.0", "host_step_ms: two", "x.csv:13: host_step_ms is 'two', expected a number from 0 up"),
        ("host_step_ms: 2.0", "host_step_ms: -2", "x.csv:13: host_step_ms is '-2', expected a number from 0 up"),
        ("graph_limit: 2", "graph_limit: 2.5", "x.csv:17: graph_limit is '2.5', expected a whole number from 1 up"),
        ("graph_limit: 2", "graph_sizes: 4-2", "x.csv:17: graph_sizes holds '4-2', expected a size, first-last"),
        ("graph_limit: 2", "graph_sizes: 4, 2", "x.csv:17: graph_sizes is '4, 2', expected ascending sizes"),
        ("graph_limit: 2", "graph_limit: 2\n# graph_sizes: 1,2", "x.csv:17: both graph_sizes and graph_limit"),
        ("graph_limit: 2", "context_cost: each", "x.csv:17: context_cost is 'each', expected per-size, common or"),
        ("graph_limit: 2", "draft_fixed_ms: 1", "x.csv:17: draft rows and a drafter's line, expected one of them"),
        ("part,rows", "part,row", "x.csv:18: unknown column 'row', did you mean 'rows'?"),
        ("part,rows", "part,part,rows", "x.csv:18: columns are 'part,part,rows,requests,context_tokens,ms', expected"),
        ("1,1,0,4.0", "1,1,0,4.0,9", "x.csv:20: 6 values in 'target,1,1,0,4.0,9', expected 5"),
        ("target,1,1,0,4.0", "traget,1,1,0,4.0", "x.csv:20: part is 'traget', expected target or draft"),
        ("1,1,0,4.0", "one,1,0,4.0", "x.csv:20: rows is 'one', expected a whole number from 1 up"),
        ("1,1,0,4.0", "0,1,0,4.0", "x.csv:20: rows is '0', expected a whole number from 1 up"),
        ("1,1,0,4.0", "1,2,0,4.0", "x.csv:20: requests is 2, expected 1 to 1, the rows of the step"),
        ("1,1,0,4.0", "1,1,-5,4.0", "x.csv:20: context_tokens is '-5', expected a whole number from 0 up"),
        ("1,1,0,4.0", "1,1,0,-4.0", "x.csv:20: ms is '-4.0', expected a number from 0 up"),
        ("1,1,0,4.0", "1,1,0,0", "x.csv:20: ms is '0', expected a number above 0"),
        ("1,1,0,4.0", "1,1,0,nan", "x.csv:20: ms is 'nan', expected a number from 0 up"),
        ("1,1,0,4.0", "2,2,0,4.0", "20: target 2 rows, 2 requests, 0 context tokens is given twice, first"),
        ("target,1,1,0,4.0", "# half way", "x.csv:20: a comment between rows, expected all # lines above the first"),
        (ROWS, "", "x.csv: the table has no target rows, expected at least one"),
        (ROWS, "part,rows,requests,context_tokens,ms\n", "x.csv: the table has no target rows, expected at least one"),
        (GRAPHS, "# context_cost: 9000\n", "x.csv: a step of 2 rows costs nothing once its context is paid"),
        (TINY, "", "x.csv: header key 'format' is missing"),
    ],
)  # fmt: skip
def test_one_sentence_for_each_mistake(old, new, message):
    assert old in TINY
    with pytest.raises(BenchError, match=re.escape(message)):
        build_latency(parse_latency_text(TINY.replace(old, new, 1), "x.csv"))


@pytest.mark.parametrize(
    ("kind", "lines", "message"),
    [
        ("linear", "# fixed_ms: 5\n# us_per_row: 20\n", "header key 'us_per_context_token' is missing, expected"),
        ("linear", "# fixed_ms: 5\n# graph_limit: 8\n", "unknown header key 'graph_limit'"),
        ("roofline", "# target_layers: 40\n", "header key 'target_hidden' is missing, expected a number"),
        ("roofline", "# target_layers: 4.5\n", "target_layers is '4.5', expected a whole number from 1 up"),
    ],
)  # fmt: skip
def test_files_of_constants_that_lack_some(kind, lines, message):
    text = HEADER.replace("kind: table", f"kind: {kind}") + lines
    with pytest.raises(BenchError, match=re.escape(message)):
        build_latency(parse_latency_text(text, "x.csv"))


def test_files_of_constants_have_no_rows():
    text = HEADER.replace("kind: table", "kind: linear") + "".join(f"# {key}: 1\n" for key in LINE_KEYS) + ROWS
    with pytest.raises(BenchError, match=r"x.csv:20: rows in a file of kind linear, expected its header alone"):
        parse_latency_text(text, "x.csv")


def test_a_roofline_of_impossible_constants():
    path = Path(__file__).parent.parent / "lightspec_bench" / "latency_tables" / "h200-qwen3-14b-roofline.csv"
    text = path.read_text(encoding="utf-8").replace("# device_tflops: 730", "# device_tflops: 0")
    with pytest.raises(BenchError, match=r"x.csv: device: peak_flops is 0.0, expected above 0"):
        build_latency(parse_latency_text(text, "x.csv"))


def test_sizes_are_ranges():
    assert parse_sizes("1-4, 8-32/8, 40", "sizes").tolist() == [1, 2, 3, 4, 8, 16, 24, 32, 40]


def test_the_example_of_the_documentation():
    """docs/latency.md shows one complete file; it is one."""
    page = (Path(__file__).parent.parent / "docs" / "latency.md").read_text(encoding="utf-8")
    example = re.search(r"```csv\n(.*?)```", page, re.DOTALL)
    assert example is not None
    latency = build_latency(parse_latency_text(example[1], "docs/latency.md"))
    assert 1e3 * float(latency.verify_s(20, 8, 8000)) == pytest.approx(13.0)
    assert set(latency_names()) <= set(re.findall(r"`([a-z0-9.-]+)`", page))
