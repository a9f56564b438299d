"""The machine as a record: what a clock reading depends on besides versions and processor."""

from __future__ import annotations

import os
from typing import Any

import torch


def describe_named(device: str) -> dict[str, Any]:
    """`describe_machine` of a device by name."""
    return describe_machine(torch.device(device))


def describe_machine(device: torch.device) -> dict[str, Any]:
    """JSON values: the device's name, and on a CPU the threads and the load of the machine just now."""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        return {"device": found.name, "device_memory_gib": round(found.total_memory / 2**30, 1)}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"device": "cpu", "torch_threads": torch.get_num_threads(), "load_average": load}
