"""The vLLM plug-in before it plans: its options, what it refuses, what it warns of, and the budget of V2's manager."""

from __future__ import annotations

from typing import Any

import pytest

from lightspec_bench.core import BenchError, EngineConfig
from lightspec_bench.registry import make_planner
from lightspec_bench.runners.vllm_adaptive import plan_budgets
from lightspec_bench.runners.vllm_options import PluginOptions, plugin_options
from lightspec_bench.runners.vllm_support import check_attributes, check_configuration, check_version
from tests.runners.vllm_standin import Vllm, configuration, controlled


def test_options_as_they_are_written() -> None:
    given = {"planner": "clamp", "options": {"most": 4, "planner": "static:k=2"}, "record": "x.parquet", "seed": 3}
    options = plugin_options({"lightspec": given, "other": 1})
    assert options == PluginOptions("clamp", given["options"], record="x.parquet", seed=3)  # type: ignore[arg-type]
    assert options is not None
    assert options.spec == "clamp:most=4,planner=(static:k=2)"
    assert plugin_options({}) is None
    assert plugin_options(None) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"planer": "static"}, "additional_config: unknown key 'planer' in lightspec, did you mean 'planner'?"),
        ({"depth": "deep"}, "additional_config: lightspec.depth is 'deep', expected one of fixed, planned"),
        ({"seed": "a"}, "additional_config: lightspec.seed is 'a', expected int"),
        ({"record_requests": 0}, "additional_config: lightspec.record_requests is 0, expected at least 1"),
        ([], "additional_config: lightspec is list, expected keys and values"),
    ],
)
def test_wrong_options_say_what_is_wrong(given: Any, message: str) -> None:
    with pytest.raises(BenchError) as error:
        plugin_options({"lightspec": given})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("vllm_config", "begins"),
    [
        (configuration(pipeline_parallel_size=2), "lightspec: pipeline_parallel_size is 2, expected 1"),
        (configuration(data_parallel_size=2), "lightspec: data_parallel_size is 2 and ranks must agree on a depth"),
        (configuration("mlp_speculator"), "lightspec: speculative method 'mlp_speculator' is not supported, expected"),
    ],
)
def test_combinations_that_cannot_work_are_refused(vllm_config: Any, begins: str) -> None:
    with pytest.raises(BenchError, match=f"^{begins}"):
        check_configuration(vllm_config, PluginOptions())


def test_data_parallel_ranks_may_draft_one_depth() -> None:
    check_configuration(configuration(data_parallel_size=2), PluginOptions(depth="fixed"))
    check_configuration(configuration(None, data_parallel_size=2), PluginOptions())


def test_planners_that_the_engine_cannot_feed_are_refused() -> None:
    control = controlled(Vllm(configuration("ngram")))
    with pytest.raises(
        BenchError, match=r"^planner dspark needs confidence, which this engine's drafter does not show$"
    ):
        control.set_planner(make_planner("dspark", control.config))
    control = controlled(Vllm(configuration(None)))
    with pytest.raises(BenchError, match=r"^planner static uses a drafter, expected a speculative_config$"):
        control.set_planner(make_planner("static:k=1", control.config))
    control.set_planner(make_planner("none", control.config))


def test_other_versions_warn_and_missing_attributes_are_named(caplog: pytest.LogCaptureFixture) -> None:
    check_version("0.32.0+cpu")
    assert not caplog.records
    check_version("0.40.1")
    assert caplog.messages == ["lightspec: vLLM is 0.40.1, tested with 0.32"]
    with pytest.raises(BenchError, match=r"^lightspec: vLLM 0.40.1 has no Scheduler.running, which"):
        check_attributes("Scheduler", object(), ("running",), "0.40.1")


def test_our_budget_takes_the_place_of_the_managers_choice() -> None:
    class Manager:
        _max_total_logits, num_bonus_tokens, _batch_budget = 100, 1, ()

        def get_num_tokens(self, num_tokens: dict[str, int], drafts: dict[str, list[int]]) -> int:
            self._batch_budget = ({"a": 3, "b": 2}, {"a": 1, "b": 1}, 4)
            return 6

    manager: Any = Manager()
    plan_budgets(manager)
    assert manager.get_num_tokens({}, {}) == 6
    manager.planned_budget = 2
    assert manager.get_num_tokens({}, {}) == 4
    assert manager._batch_budget == ({"a": 3, "b": 2}, {"a": 1, "b": 1}, 2)
    assert manager.get_num_tokens({}, {}) == 6  # a plan is for one step
    manager.planned_budget = 50
    assert manager.get_num_tokens({}, {}) == 7


def test_config_is_what_planners_are_built_with() -> None:
    control = controlled(Vllm(configuration("dflash", overlapped=True)), seed=5)
    config: EngineConfig = control.config
    assert (config.drafter.kind, config.max_draft_tokens, config.lag_steps, config.seed) == ("parallel", 3, 1, 5)
    assert config.max_num_seqs == 4
