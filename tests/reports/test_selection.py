"""Which planners pictures draw when there are too many for one."""

from __future__ import annotations

from lightspec_bench.reports.comparison import compare
from lightspec_bench.reports.selection import MANY, Selection, are_many, select
from lightspec_bench.reports.styles import KNOWN, styles_of
from tests.reports import tiny


def sweep(count: int) -> dict[tuple[int, str], float]:
    """No speculation, a static K, the oracle, and `count` planners, p0 the fastest."""
    fixed = {(1, "none"): 100.0, (1, "static:k=1"): 120.0, (1, "oracle"): 500.0}
    return fixed | {(1, f"p{i}"): 400.0 - 10 * i for i in range(count)}


def test_few_planners_are_all_drawn() -> None:
    comparison = compare(tiny.summary(sweep(MANY)))
    assert select(comparison) == Selection(tuple(f"p{i}" for i in range(MANY)))
    assert not are_many(comparison)
    assert len(select(comparison).of(comparison)) == len(comparison)


def test_of_many_the_best_the_worst_and_the_references_are_drawn() -> None:
    comparison = compare(tiny.summary(sweep(12) | {(1, "schedule"): 325.0}))
    found = select(comparison)
    assert found.planners == ("p0", "p1", "p2", "p3", "p4", "schedule", "p10", "p11")
    assert found.sentence == (
        "Of 13 dynamic planners the best 5 and the worst 2 over all cells are drawn, and schedule; tables and ranking "
        "have them all."
    )
    assert are_many(comparison)
    drawn = set(found.of(comparison)["planner"])
    assert drawn == {"none", "static:k=1", "best-static", "oracle", *found.planners}


def test_planners_drawn_together_have_colours_of_their_own() -> None:
    planners = [*KNOWN, *(f"p{i}" for i in range(8))]
    styles = styles_of(planners)
    assert len({style.colour for style in styles.values()}) == len(planners)
    assert styles_of(planners) == styles
    assert styles["dspark"] == KNOWN["dspark"]
