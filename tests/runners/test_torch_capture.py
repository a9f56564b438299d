"""Capturing a CUDA graph, call by call, where there is no CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lightspec_bench.runners.torch_graphs import CudaCapture, Graphed, Graphs

CPU = torch.device("cpu")


class FakeCuda:
    """The calls of `torch.cuda` that a capture makes, noted; what a graph holds is run again when it is replayed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> None:
        self.said: list[str] = []
        self.fails = fails
        for name in ("CUDAGraph", "graph", "set_stream", "set_sync_debug_mode", "stream"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: self)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
        self.device = CPU

    def wait_stream(self, other: Any) -> None:
        self.said.append("wait")

    def set_stream(self, stream: Any) -> None:
        self.said.append("back")

    def set_sync_debug_mode(self, mode: Any) -> None:
        self.said.append(f"sync {mode}")

    def CUDAGraph(self) -> Any:
        return SimpleNamespace(replay=lambda: self.said.append("replay"))

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        yield

    @contextmanager
    def graph(self, graph: Any, pool: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        assert (pool, capture_error_mode) == ("pool", "thread_local")
        self.said.append("capture")
        yield
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.said.append("captured")


def test_a_capture_warms_up_twice_and_keeps_its_pool_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    capture = CudaCapture(CPU)
    replay = capture(lambda: cuda.said.append("run"))
    warm, held = ["wait", "run", "sync error", "run", "sync 0"], ["capture", "captured"]
    captured = ["capture", "run", "captured", "back", "wait"]
    assert cuda.said == [*warm, *held, *captured]
    cuda.said.clear()
    replay()
    capture(lambda: cuda.said.append("run"))
    assert cuda.said == ["replay", *warm, *captured]  # what holds the pool is captured once


def test_a_capture_that_fails_goes_back_to_the_stream_before(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, fails=True)
    graphs = Graphs((4,), CudaCapture(CPU))
    fixed = Graphed("a pass", lambda values: (values + 1,), graphs, 4, [torch.zeros(0)])
    with pytest.warns(UserWarning, match="a pass cannot be captured as a CUDA graph, it runs without: operation not"):
        assert not fixed.takes(2)
    assert cuda.said[-1] == "back"
    assert list(graphs.refused) == ["a pass"]
    assert str(graphs) == "CUDA graphs up to 4 rows, but not a pass"
