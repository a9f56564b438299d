"""The commands about prompts: what ships, and what a source holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from lightspec_bench.cli_prompts import app
from lightspec_bench.traces.prompts import prompt_names
from tests.traces.prompt_rows import write

# Command line


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_set_with_its_licence() -> None:
    rows = json.loads(run("list", "--json"))
    assert [row["name"] for row in rows] == prompt_names()
    assert [row["name"] for row in rows if row["local"] and row["name"] != "sharegpt"] == [
        "gsm8k", "humaneval", "math500", "mbpp", "mt_bench",
    ]  # fmt: skip
    assert rows[0] == {"name": "gsm8k", "local": True, "source": "openai/gsm8k main test", "licence": "MIT"}
    assert "CC-BY-4.0" in run("list")


def test_show(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", {"turns": ["a\n\x1b[31m" + "b" * 400, "c"]}, {"turns": []}, {"turns": ["d"]})
    assert run("show", file, "--num-prompts", "1") == (
        "p: 2 prompts, 3 user turns, 1 rows skipped\n"
        f"  {file}; licence: not stated\n"
        "  categories: p 2\n"
        f"  skipped 1: has no user turn (first: {file} line 2)\n"
        f"\np-0 (p)\n  > a ?[31m{'b' * 293}... (407 characters)\n  > c\n"
    )
    assert json.loads(run("show", file, "-n", "0", "--json")) == {
        "name": "p", "source": file, "licence": "not stated", "notes": [],
        "skipped": [{"reason": "has no user turn", "count": 1, "first": f"{file} line 2"}],
        "num_prompts": 2, "num_turns": 3, "num_skipped": 1, "categories": {"p": 2}, "prompts": [],
    }  # fmt: skip
    shown = json.loads(run("show", "mt_bench", "--json"))
    assert [p["id"] for p in shown["prompts"]] == ["mt-bench-0", "mt-bench-1", "mt-bench-2"]


def test_the_modules_load_nothing_heavy() -> None:
    code = (
        "import sys, lightspec_bench.cli_prompts\nassert 'numpy' not in sys.modules\n"
        "import lightspec_bench.traces.prompts, lightspec_bench.traces.prompts_requests\n"
        "print(sorted({'datasets', 'torch', 'transformers', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
