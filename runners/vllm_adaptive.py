"""Our budget inside vLLM's adaptive verification: V2's varying query lengths, with our number of draft tokens.

vLLM's manager chooses how many draft tokens a batch verifies and, on the GPU, whose; the second half stays its own.
This needs vLLM's V2 runner on a GPU with full graphs, and is untested until a run there shows it.
"""

from __future__ import annotations

from typing import Any

BUDGET = "lightspec_budget"  # of vLLM's SchedulerOutput: draft tokens that this step may verify


def replace_manager() -> None:
    """Let V2 runners made from here on choose budgets by ours; nothing where vLLM has no such manager."""
    try:
        from vllm.v1.worker.gpu import model_runner
    except ImportError:  # no Triton: there is no V2 runner either
        return
    name = "maybe_create_adaptive_verification_manager"
    original = getattr(model_runner, name, None)
    if original is None or getattr(original, "of_lightspec", False):
        return

    def create(**kwargs: Any) -> Any:
        manager = original(**kwargs)
        if manager is not None:
            plan_budgets(manager)
        return manager

    create.of_lightspec = True  # type: ignore[attr-defined]
    setattr(model_runner, name, create)


def plan_budgets(manager: Any) -> None:
    """An `AdaptiveVerificationManager` that takes `planned_budget`, where there is one, for its own choice."""
    manager.planned_budget = None
    choose = manager.get_num_tokens

    def get_num_tokens(num_tokens_per_req: dict[str, int], draft_tokens: dict[str, list[int]]) -> int:
        own = int(choose(num_tokens_per_req, draft_tokens))
        planned, manager.planned_budget = manager.planned_budget, None
        if planned is None:
            return own
        drafts, others, _ = manager._batch_budget
        most = max(0, manager._max_total_logits - len(drafts) * manager.num_bonus_tokens)
        budget = int(min(planned, sum(drafts.values()), most))
        manager._batch_budget = drafts, others, budget
        return int(sum(others.values())) + budget

    manager.get_num_tokens = get_num_tokens
