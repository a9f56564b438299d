"""What a measurement is labelled with: the device and the engine."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch


def device_name(device: torch.device) -> str:
    """`NVIDIA H200`, or the processor with the threads torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


def named_device(name: str) -> str:
    """`device_name` of a device by name."""
    return device_name(torch.device(name))


def engine_name() -> str:
    found = f"lightspec-bench torch runner, torch {torch.__version__}, transformers {version('transformers')}"
    return f"{found}, CUDA {torch.version.cuda}" if torch.version.cuda else found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
