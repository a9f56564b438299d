"""Side files keep what is finished, and refuse what belongs to another job."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightspec_bench.errors import BenchError
from lightspec_bench.side_file import SideFile


def test_entries_come_back(tmp_path: Path) -> None:
    path = tmp_path / "below" / "job"
    with SideFile(path, {"n": 1}, resume=False) as file:
        assert file.entries == []
        file.append({"row": 0})
        assert path.read_text() == '{"settings": {"n": 1}}\n{"row": 0}\n'  # on the disk while the job runs
        file.append({"row": 1})
    with SideFile(path, {"n": 1}, resume=True) as file:
        assert file.entries == [{"row": 0}, {"row": 1}]
        file.append({"row": 2})
        file.remove()
    assert not path.exists()


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with SideFile(path, {}, resume=True) as file:
        file.append({"row": 0})
    for rest in ('{"row": 1', '{"row": 1\n', "\x00\x00\n"):
        whole = path.read_text()
        path.write_text(whole + rest)
        with SideFile(path, {}, resume=True) as file:
            assert file.entries == [{"row": 0}]
        assert path.read_text() == whole
    path.write_text('{"settings": ')
    with SideFile(path, {"n": 1}, resume=False) as file:
        assert file.entries == []
    assert path.read_text() == '{"settings": {"n": 1}}\n'


def test_other_settings_are_refused_and_a_file_that_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "job"
    with SideFile(path, {"n": 1}, resume=False) as file:
        file.append({"row": 0})
    with pytest.raises(BenchError, match="was begun with n 1, expected 2"):
        SideFile(path, {"n": 2}, resume=True)
    with pytest.raises(BenchError, match="was begun with n 1, expected None"):
        SideFile(path, {}, resume=True)
    with pytest.raises(BenchError, match="holds 1 finished pieces of an interrupted run, expected --resume"):
        SideFile(path, {"n": 1}, resume=False)
    path.write_text("[]\n")
    with pytest.raises(BenchError, match="no settings in its first line"):
        SideFile(path, {}, resume=True)
