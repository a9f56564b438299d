"""Names and specs: what `name:key=value` means, and what a mistake says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from lightspec_bench.core import BenchError, PlanError
from lightspec_bench.errors import PluginError
from lightspec_bench.option_types import type_name, typed
from lightspec_bench.planners.clamp import Clamp
from lightspec_bench.planners.static import Static
from lightspec_bench.registry import check_spec, make_planner, name_of, named, names, options_of, parse_spec, resolve
from tests.support import config_for, random_trace


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("none", "none", {}),
        ("static:k=3", "static", {"k": 3}),
        ("schedule:ranges=[[1, 16, 3], [17, 64, 1]],x=a", "schedule", {"ranges": [[1, 16, 3], [17, 64, 1]], "x": "a"}),
        ("t:schedule={1:4,8:2}", "t", {"schedule": {1: 4, 8: 2}}),
        ("t:schedule={1-16:3, 17-64: 1}", "t", {"schedule": {"1-16": 3, "17-64": 1}}),
        ("my.module:Planner", "my.module:Planner", {}),
        ("my.module:Planner:k=2,on=true", "my.module:Planner", {"k": 2, "on": True}),
        # A value in parentheses is another spec, or any text, kept whole.
        ("clamp:most=4,planner=(static:k=3)", "clamp", {"most": 4, "planner": "static:k=3"}),
        ("clamp:planner=(a:b=1,c=2),most=4", "clamp", {"planner": "a:b=1,c=2", "most": 4}),
        (
            "clamp:planner=(dwell:planner=(my.module:Mine:k=3),steps=2)",
            "clamp",
            {"planner": "dwell:planner=(my.module:Mine:k=3),steps=2"},
        ),
        ("clamp:planner=( static )", "clamp", {"planner": "static"}),
        ("clamp:planner=static:k=3,most=4", "clamp", {"planner": "static:k=3", "most": 4}),
        ("schedule:ranges=[(1), 2],x=a(b,c)", "schedule", {"ranges": ["(1)", 2], "x": "a(b,c)"}),
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
        ("zzz", "unknown planner 'zzz', expected one of acceptance-target, .*, static"),
        ("static:kk=3", "static: unknown option 'kk', did you mean 'k'\\?"),
        ("none:k=3", "none: unknown option 'k', it has none"),
        ("static:k=two", "static: option k is 'two', expected int or nothing"),
        ("static:k=true", "static: option k is True, expected int or nothing"),
        ("static:k", "static: 'k' is not an option, expected key=value"),
        (":Static", "unknown planner ':Static', did you mean 'static'"),
        ("clamp:planner=(static:k=1", r"option planner is '\(static:k=1', expected its first parenthesis to close"),
        ("clamp:planner=(a)(b)", r"option planner is '\(a\)\(b\)', expected its first parenthesis to close at the end"),
        ("static:k=1,k=2", "option 'k' is given twice, expected once"),
        ("static:k=[1", "option k is '\\[1', expected a YAML value"),
        ("static:k=9", "k is 9, expected 0 to 3"),
        ("oracle", "planner 'oracle' reads the trace it runs on, which this runner does not have"),
        ("no_such_module:Planner", "planner 'no_such_module:Planner' cannot be imported: No module named"),
        ("json:nothing", "planner 'json:nothing' cannot be imported: module 'json' has no attribute 'nothing'"),
        ("json:dumps", "planner 'json:dumps' is a function, expected a class"),
        (
            "json:JSONDecodeError",
            "planner 'json:JSONDecodeError': its constructor takes 'msg' first, expected 'config'",
        ),
    ],
)
def test_mistakes_are_one_sentence(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        make_planner(spec, config_for(random_trace(1), 4))


@pytest.mark.parametrize(
    ("annotation", "name", "given", "value"),
    [
        (float, "float", 3, 3.0),
        (float, "float", "1e-3", 0.001),  # text to YAML
        (Literal["off", "on"], "off | on", False, "off"),  # a bare off is False to YAML
        (Literal["a", "b"] | None, "a | b | None", "b", "b"),
        (Literal["a"] | float, "a | float", 2, 2.0),
        (list[float], "list[float]", [1, 2.5], [1.0, 2.5]),
        (list[list[int]], "list[list[int]]", [[1], [2]], [[1], [2]]),
        (tuple[int, ...], "tuple[int, ...]", [1, 2], (1, 2)),
        (dict[str, int], "dict[str, int]", {"1-4": 3}, {"1-4": 3}),
        (Any, "Any", [1], [1]),
    ],
)
def test_types_of_options(annotation: Any, name: str, given: Any, value: Any) -> None:
    made = typed("mine: option x", given, annotation)
    assert (made, type(made)) == (value, type(value))
    assert type_name(annotation) == name


@pytest.mark.parametrize(
    ("annotation", "given", "message"),
    [
        (int, 2.5, "mine: option x is 2.5, expected int"),
        (int | None, "two", "mine: option x is 'two', expected int or nothing"),
        (bool, 1, "mine: option x is 1, expected bool"),
        (float, "fast", "mine: option x is 'fast', expected float"),
        (list[int], [1, "a"], r"mine: option x\[1\] is 'a', expected int"),
        (list[int], 3, "mine: option x is 3, expected list"),
        (Literal["alpha", "beta"], "alpa", "mine: option x is 'alpa', did you mean 'alpha'"),
        (Literal["alpha", "beta"] | None, "zzz", "mine: option x is 'zzz', expected one of alpha, beta"),
        (Literal["auto"] | int, "oto", "mine: option x is 'oto', expected auto or int"),
    ],
)
def test_wrong_types_of_options(annotation: Any, given: Any, message: str) -> None:
    with pytest.raises(BenchError, match=f"^{message}"):
        typed("mine: option x", given, annotation)


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module that can be imported from then on."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")

    return write


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        (PluginError, "import no_such_package\n", "imported: ModuleNotFoundError: No module named 'no_such_package'"),
        (PluginError, "from json import no_thing\n", "imported: ImportError: cannot import name 'no_thing'"),
        (PluginError, "1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero"),
        (PluginError, "raise SystemExit(3)\n", "cannot be imported: SystemExit: 3"),
        (PluginError, "def f(:\n", "cannot be imported: SyntaxError: invalid syntax"),
        (
            PluginError,
            "class Mine:\n    def __init__(self, config):\n        raise RuntimeError('two\\nlines')\n",
            "cannot be built: RuntimeError: two lines",
        ),
        (BenchError, "class Mine:\n    def __init__(self, config, *, x):\n        pass\n", "option 'x' is missing"),
        (BenchError, "class Mine:\n    pass\n", "its constructor takes nothing first, expected 'config'"),
        (
            BenchError,
            "class Mine:\n    def __init__(self, config, x: 'Nowhere' = 1):\n        pass\n",
            "has options whose annotations cannot be read: NameError: name 'Nowhere' is not defined",
        ),
        (BenchError, "class Mine:\n    __signature__ = 3\n", "has a constructor that cannot be read, expected Class("),
        (BenchError, "Mine = 3\n", "is a int, expected a class"),
    ],
)
def test_a_broken_plug_in_is_one_sentence(plug_in: Any, kind: type[BenchError], source: str, message: str) -> None:
    """`PluginError` where it is broken itself, and not just no planner."""
    module = f"mine_{abs(hash(source))}"
    plug_in(module, source)
    with pytest.raises(BenchError) as raised:
        make_planner(f"{module}:Mine", config_for(random_trace(1), 4))
    text = str(raised.value)
    assert type(raised.value) is kind
    assert message in text
    assert f"{module}:Mine" in text
    assert "\n" not in text


def test_what_is_imported_for_type_checkers_only_is_no_obstacle(plug_in: Any) -> None:
    plug_in(
        "checked_only",
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "from lightspec_bench.planners.static import Static\n"
        "if TYPE_CHECKING:\n    from lightspec_bench.core import EngineConfig\n"
        "class Mine(Static):\n    def __init__(self, config: EngineConfig, depth: int = 2) -> None:\n"
        "        super().__init__(config, depth)\n",
    )
    planner = make_planner("checked_only:Mine:depth=1", config_for(random_trace(1), 4))
    assert isinstance(planner, Static)
    assert planner.k == 1
    with pytest.raises(BenchError, match="checked_only:Mine: option depth is 'x', expected int"):
        check_spec("checked_only:Mine:depth=x")


def test_entry_points_of_installed_packages_are_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, entries in (
        ("one", "shallow = lightspec_bench.planners.clamp:Clamp\nstatic = nowhere:Other\ntwice = one:One\n"),
        ("two", "broken = no_such_package_at_all:Mine\ntwice = two:Two\n"),
    ):
        folder = tmp_path / f"{package}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[lightspec_bench.planners]\n{entries}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"shallow", "broken", "twice"} <= set(names("planner"))
    assert names("planner").count("static") == 1
    assert resolve("planner", "shallow") is Clamp
    assert resolve("planner", "static") is Static  # ours
    with pytest.raises(BenchError, match="unknown planner 'shalow', did you mean 'shallow'"):
        resolve("planner", "shalow")
    with pytest.raises(BenchError, match="planner 'broken' cannot be imported: No module named"):
        resolve("planner", "broken")
    with pytest.raises(BenchError, match="planner 'twice' is a name of one:One and of two:Two, expected one of these"):
        resolve("planner", "twice")


def test_specs_are_checked_without_building_anything() -> None:
    check_spec("clamp:most=4,planner=(dwell:steps=3,planner=(static:k=99))")  # whether k fits depends on the engine
    for spec, message in (
        ("clamp:planner=(dwell:planner=statik)", "unknown planner 'statik'"),
        ("clamp:planner=(static:k=a)", "static: option k is 'a'"),
        ("clamp:planner=(dwell:planner=oracle)", "dwell: planner oracle reads the trace it runs on"),
    ):
        with pytest.raises(BenchError, match=message):
            check_spec(spec)


def test_a_sentence_names_its_planner_once() -> None:
    assert str(named("static:k=9", BenchError("static: k is 9"))) == "static: k is 9"
    assert str(named("static", PlanError("planner static: wrong"))) == "planner static: wrong"
    error = named("my.module:Mine:k=3", PlanError("early_exit.threshold is 2, expected 0 to 1"))
    assert (type(error), str(error)) == (
        PlanError, "my.module:Mine:k=3: early_exit.threshold is 2, expected 0 to 1",
    )  # fmt: skip
    assert str(named("static", BenchError("statics are wrong"))) == "static: statics are wrong"
