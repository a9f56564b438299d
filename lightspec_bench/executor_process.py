"""Cells in processes of this machine: one core each, traces mapped from files and so held once for all of them.

Every worker has a pipe of its own and one cell at a time, so that it is known which cell a dead worker had.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from lightspec_bench.cell_run import Outcome, attempt
from lightspec_bench.core import BenchError, LatencyModel, Trace
from lightspec_bench.inputs import Inputs
from lightspec_bench.store import CELLS, write_files
from lightspec_bench.suite import Cell
from lightspec_bench.traces.mapped import open_mapped, write_mapped

MAPPED = ".traces"
TRIES = 3
_SPAWN = multiprocessing.get_context("spawn")  # not forked: pyarrow's threads do not survive a fork


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker is told once: mapped traces by name, latency models by name, and where finished cells go."""

    traces: Mapping[str, Path]
    latencies: Mapping[str, LatencyModel]
    folder: Path


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    cell: Cell | None = None
    ready: bool = False


class ProcessExecutor:
    """Runs cells in up to `jobs` processes (None: one a core), or in this one where `jobs` is 1.

    Used as a context; workers stay until its end, which waits for the cells they are in. A cell whose worker dies is
    run again, `TRIES` times in all.
    """

    def __init__(self, inputs: Inputs, folder: Path, jobs: int | None) -> None:
        self.inputs, self.folder, self.jobs = inputs, folder, jobs or os.cpu_count() or 1
        self._mapped = folder / MAPPED
        self._workers: list[_Worker] = []

    def __enter__(self) -> ProcessExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join()
        self._workers.clear()
        shutil.rmtree(self._mapped, ignore_errors=True)

    def run(self, cells: Sequence[Cell]) -> Iterator[Outcome]:
        """How each cell ended, as they end; finished ones are in the folder by then.

        Raises `BenchError` where the folder does not take them.
        """
        if self.jobs == 1 or (len(cells) < 2 and not self._workers):
            for cell in cells:
                yield _keep(cell, self.inputs.trace(cell.trace), self.inputs.latency(cell.latency), self.folder)
            return
        waiting, tries = deque(cells), dict.fromkeys((cell.key for cell in cells), 0)
        left = len(cells)
        self._start(min(self.jobs, left))
        while left:
            for worker in self._answering(waiting):
                outcome = self._answer(worker, waiting, tries)
                if outcome:
                    left -= 1
                    yield outcome

    def _start(self, count: int) -> None:
        """Have `count` workers."""
        if len(self._workers) >= count:
            return
        suite = self.inputs.suite
        for name in suite.traces:
            write_mapped(self.inputs.trace(name), self._path(name))
        traces = {name: self._path(name) for name in suite.traces}
        task = _Task(traces, {name: self.inputs.latency(name) for name in suite.latencies}, self.folder)
        while len(self._workers) < count:
            ours, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_work, args=(theirs, task), daemon=True)
            process.start()
            theirs.close()  # so that its end is seen here when the worker dies
            self._workers.append(_Worker(process, ours))

    def _path(self, trace: str) -> Path:
        return self._mapped / self.inputs.digests.traces[trace]

    def _answering(self, waiting: deque[Cell]) -> list[_Worker]:
        """Give every idle worker a cell, then wait for an answer or a death."""
        for worker in self._workers:
            if worker.ready and worker.cell is None and waiting:
                worker.cell = waiting.popleft()
                with suppress(OSError):  # where it died, its end of the pipe is about to say so
                    worker.pipe.send(worker.cell)
        by_pipe = {worker.pipe: worker for worker in self._workers}
        return [by_pipe[pipe] for pipe in wait(list(by_pipe)) if isinstance(pipe, Connection)]

    def _answer(self, worker: _Worker, waiting: deque[Cell], tries: dict[str, int]) -> Outcome | None:
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            return self._died(worker, waiting, tries)
        if isinstance(answer, BenchError):
            raise answer
        worker.ready = True
        worker.cell = None
        return answer if isinstance(answer, Outcome) else None

    def _died(self, worker: _Worker, waiting: deque[Cell], tries: dict[str, int]) -> Outcome | None:
        """Put another worker in a dead one's place; its cell goes to the front, or fails where it was the last try."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        if not worker.ready:
            raise BenchError(f"a worker process ended with {_exit(worker.process)} before it was ready")
        outcome = self._lost(worker.cell, waiting, tries, _exit(worker.process)) if worker.cell else None
        if waiting:
            self._start(min(self.jobs, len(self._workers) + len(waiting)))
        return outcome

    def _lost(self, cell: Cell, waiting: deque[Cell], tries: dict[str, int], how: str) -> Outcome | None:
        """What became of a dead worker's cell, None where it is to be run again."""
        if (self.folder / CELLS / f"{cell.key}.json").exists():
            return Outcome(cell.key, "done")
        tries[cell.key] += 1
        if tries[cell.key] == TRIES:
            return Outcome(cell.key, "failed", f"{cell.planner}: its process ended {TRIES} times, at last with {how}")
        waiting.appendleft(cell)
        return None


def _exit(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _work(pipe: Connection, task: _Task) -> None:
    """A worker: cells in, outcomes out, until the pipe is closed. Ctrl-C is left to the parent, so that the cells the
    workers are in are still kept; a parent that is killed takes its workers with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    traces = {name: open_mapped(path) for name, path in task.traces.items()}
    try:
        pipe.send("ready")
        while True:
            cell = pipe.recv()
            try:
                answer: object = _keep(cell, traces[cell.trace], task.latencies[cell.latency], task.folder)
            except BenchError as error:
                answer = error
            pipe.send(answer)
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _keep(cell: Cell, trace: Trace, latency: LatencyModel, folder: Path) -> Outcome:
    """Run a cell and save it. Raises `BenchError` only where it cannot be saved."""
    outcome, files = attempt(cell, trace, latency)
    write_files(folder / CELLS, files)
    return outcome
