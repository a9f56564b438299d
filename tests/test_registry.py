"""Names and specs: what `name:key=value` means, and what a mistake says."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.core import BenchError
from lightspec_bench.planners.static import Static
from lightspec_bench.registry import make_planner, name_of, names, options_of, parse_spec, resolve
from tests.support import config_for, random_trace


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("none", "none", {}),
        ("static:k=3", "static", {"k": 3}),
        ("schedule:ranges=[[1, 16, 3], [17, 64, 1]],x=a", "schedule", {"ranges": [[1, 16, 3], [17, 64, 1]], "x": "a"}),
        ("my.module:Planner", "my.module:Planner", {}),
        ("my.module:Planner:k=2,on=true", "my.module:Planner", {"k": 2, "on": True}),
    ],
)
def test_specs(spec: str, name: str, options: dict[str, Any]) -> None:
    assert parse_spec(spec) == (name, options)


@pytest.mark.parametrize("name", names("planner"))
def test_every_name_in_the_table_resolves(name: str) -> None:
    assert resolve("planner", name).__module__.startswith("lightspec_bench.planners.")


def test_a_planner_is_built_from_a_spec_or_a_class_path() -> None:
    config = config_for(random_trace(1), 4)
    for spec in ("static:k=2", "lightspec_bench.planners.static:Static:k=2"):
        planner = make_planner(spec, config)
        assert isinstance(planner, Static)
        assert name_of(planner) == "static"


def test_options_are_read_off_the_constructor() -> None:
    option = options_of(Static)["k"]
    assert (option.name, option.type_name, option.required) == ("k", "int | None", False)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("statics", "unknown planner 'statics', did you mean 'static'\\?"),
        ("zzz", "unknown planner 'zzz', expected one of acceptance-target, dspark, lightspec"),
        ("static:kk=3", "static: unknown option 'kk', did you mean 'k'\\?"),
        ("none:k=3", "none: unknown option 'k', it has none"),
        ("static:k=two", "static: option k is 'two', expected int or nothing"),
        ("static:k=true", "static: option k is True, expected int or nothing"),
        ("static:k", "cannot be imported"),
        ("static:k=1,k=2", "option 'k' is given twice, expected once"),
        ("static:k=[1", "option k is '\\[1', expected a YAML value"),
        ("static:k=9", "k is 9, expected 0 to 3"),
        ("oracle", "planner 'oracle' reads the trace it runs on, which this runner does not have"),
        ("no_such_module:Planner", "planner 'no_such_module:Planner' cannot be imported: No module named"),
        ("json:dumps", "planner 'json:dumps' is a function, expected a class"),
    ],
)
def test_mistakes_are_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        make_planner(spec, config_for(random_trace(1), 4))
