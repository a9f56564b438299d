"""Prompts through the library `datasets`: Parquet files, saved data sets and the Hugging Face hub."""

from __future__ import annotations

import glob
import importlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.traces.prompts_files import Row, Unread
from lightspec_bench.traces.prompts_sets import HubSet

_SPLITS = ("test", "validation", "train")  # in this order, where none is asked for


def read_parquet(path: Path) -> list[Row]:
    """("FILE row 7", row) for each row. The file is streamed; the user's cache is left alone, and may be read-only."""
    with _quiet("Parquet files") as datasets, TemporaryDirectory() as cache:
        try:
            options = {"data_files": glob.escape(str(path)), "split": "train", "streaming": True, "cache_dir": cache}
            found = datasets.load_dataset("parquet", batch_size=1024, **options)  # by default 0 in a file of no rows
            return _numbered(found, str(path)) or [(str(path), Unread(f"{path} has no rows"))]
        except Exception as error:  # whatever the library, pyarrow or the file system makes of a damaged file
            raise BenchError(f"{path}: cannot be read as Parquet: {_sentence(error)}") from error


def read_saved(folder: Path) -> list[Row]:
    """The rows of a data set that `save_to_disk` wrote; of several splits, `test` before `validation` and `train`."""
    with _quiet("saved data sets") as datasets:
        try:
            return _numbered(_one_split(datasets.load_from_disk(str(folder))), str(folder))
        except Exception as error:
            raise BenchError(f"{folder}: cannot be read as a saved data set: {_sentence(error)}") from error


def read_hub(name: str, hub: HubSet) -> list[Row]:
    """The rows of a data set on the hub, kept in `datasets`' own cache; `HF_DATASETS_OFFLINE=1` reads only that.

    Raises `BenchError` where the set, its config or its split is not there or there is no network.
    """
    with _quiet("hub data sets") as datasets:
        try:
            found = datasets.load_dataset(hub.path, hub.config, data_files=hub.data_files, split=hub.split)
            return _numbered(_one_split(found), name)
        except Exception as error:
            raise BenchError(
                f"{name}: {hub.address} cannot be loaded ({_sentence(error)}), expected a network and a data set of "
                "that name, config and split"
            ) from error


def choose(hub: HubSet, options: Mapping[str, str]) -> HubSet:
    """The set with another config or split. Another config comes with its own splits."""
    changed = replace(hub, split=None) if "config" in options else hub
    return replace(changed, **options)


def _one_split(found: Any) -> Iterable[Any]:
    """A data set as it is; of a dictionary of splits the one that is not for training, where there is one."""
    if not isinstance(found, Mapping):
        rows: Iterable[Any] = found
        return rows
    name = next((split for split in _SPLITS if split in found), next(iter(found)))
    chosen: Iterable[Any] = found[name]
    return chosen


def _numbered(rows: Iterable[Any], name: str) -> list[Row]:
    return [(f"{name} row {number}", row) for number, row in enumerate(rows, 1)]


def _sentence(error: BaseException) -> str:
    """The innermost cause in one line: `datasets` wraps what happened in "An error occurred"."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text[:200]}{'...' if len(text) > 200 else ''}"


@contextmanager
def _quiet(what: str) -> Iterator[Any]:
    """The library, with its progress bars, logs and warnings off: only the command line prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            datasets: Any = importlib.import_module("datasets")  # neither package tells a type checker what it has
            hub: Any = importlib.import_module("huggingface_hub.utils")
        except ImportError as error:
            raise BenchError(
                f"{what} are read with `datasets`, which cannot be imported ({error}), expected: pip install "
                "'lightspec-bench[data]'"
            ) from error
        logs = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
        levels, bars = [log.level for log in logs], not datasets.are_progress_bars_disabled()
        hub_bars = not hub.are_progress_bars_disabled()
        for log in logs:
            log.setLevel(logging.CRITICAL + 1)
        datasets.disable_progress_bars()
        hub.disable_progress_bars()
        try:
            yield datasets
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)
            if bars:
                datasets.enable_progress_bars()
            if hub_bars:
                hub.enable_progress_bars()
