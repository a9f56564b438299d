"""The layout: five folders in one package, links that resolve, and who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SIBLINGS = ("planners", "reports", "runners", "traces")
ROOF = {
    "bench", "cell_run", "cli", "cli_compare", "cli_measure", "cli_models", "cli_planners", "cli_profile",
    "cli_prompts", "cli_record", "cli_replay", "cli_report", "cli_run", "cli_search", "cli_traces", "cli_train",
    "cli_tune", "comparing", "conditions", "environment", "executor_process", "executor_ray", "experiment",
    "inputs", "measure", "measure_latency", "measured", "measured_notes", "profiling", "profiling_graphs",
    "profiling_served", "recording", "recording_prompts", "recording_work", "results", "search", "search_cells",
    "search_space", "search_trials", "slo", "store", "suite", "ties", "tune", "tune_depths", "tune_engines",
    "tune_evidence", "tune_report", "tune_tables", "tune_task", "validation",
}  # fmt: skip
HEAVY = {"torch": ("runners/torch", "runners/vllm"), "vllm": ("runners/vllm",)}

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs a checkout")


def sources(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if not path.is_symlink())


def modules(path: Path) -> list[str]:
    """Modules of ours that a file imports, as dotted names below `lightspec_bench`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def below(names: list[str]) -> set[str]:
    """First part of each name below `lightspec_bench`."""
    return {name.split(".")[1] for name in names if name.startswith("lightspec_bench.")}


def test_every_folder_is_mapped_and_linked() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for folder in SIBLINGS:
        assert f'"lightspec_bench.{folder}" = "{folder}"' in text
        link = ROOT / "lightspec_bench" / folder
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder
        for path in sources(folder):
            assert path.parent == ROOT / folder, f"{path}: a folder inside {folder} is not in the package list"


@pytest.mark.parametrize("folder", SIBLINGS)
def test_siblings_do_not_import_one_another_or_the_roof(folder: str) -> None:
    forbidden = (set(SIBLINGS) - {folder}) | ROOF
    for path in sources(folder):
        assert not below(modules(path)) & forbidden, path


def test_the_floor_imports_nothing_above_it() -> None:
    for path in (ROOT / "lightspec_bench").glob("*.py"):
        if path.stem not in ROOF:
            assert not below(modules(path)) & (set(SIBLINGS) | ROOF), path


def test_heavy_packages_stay_in_their_files() -> None:
    for folder in ("lightspec_bench", *SIBLINGS):
        for path in sources(folder):
            top = {name.split(".")[0] for name in modules(path)}
            for package, prefixes in HEAVY.items():
                assert package not in top or f"{folder}/{path.stem}".startswith(prefixes), path


def test_no_file_is_too_long() -> None:
    for folder in ("lightspec_bench", *SIBLINGS, "tests", "benchmarks"):
        for path in sources(folder):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 300 or folder == "tests", path


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom lightspec_bench.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stderr.strip().splitlines()[-1]))
    assert "Usage" in done.stdout
    assert not loaded & {"torch", "vllm", "transformers", "datasets", "pandas", "matplotlib", "pyarrow", "numpy"}
