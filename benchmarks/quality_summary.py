"""Summary of planner_quality: one figure per target from the rows of all cases, and the tables that people read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
HEADROOM = 1.05  # the oracle's ratio from which a share of the headroom means something
REFERENCE = "lightspec-reference"
INFORMED = "informed:Informed"  # knows what can be known without outcomes: a bound, not a rival
PARTS = ("grid", "shift", "churn", "seeds", "confidences")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and what it should reach; `where` names the worst row, `loaded` is the figure against K >= 0 only."""

    what: str
    figure: float
    target: float
    where: str = ""
    loaded: float | None = None
    at_most: bool = False

    @property
    def reached(self) -> bool:
        return self.figure <= self.target if self.at_most else self.figure >= self.target


def geomean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def rows_of(rows: Sequence[Row], part: str, spec: str) -> list[Row]:
    return [row for row in rows if row["part"] == part and spec in row["ratios"]]


def where(row: Row) -> str:
    return f"{row['case']}, {row['latency']}, N={row['N']}, best {row['best_static']}"


def worst(what: str, rows: Sequence[Row], target: float, ratio: Callable[[Row], float], loaded: bool) -> Target:
    least = min(rows, key=ratio)
    beside = min(ratio(row) / row["loaded"] for row in rows) if loaded else None
    return Target(what, ratio(least), target, where(least), beside)


def shares(rows: Sequence[Row], spec: str) -> list[float]:
    """Share of the headroom between best static and oracle that is earned, in rows where there is some."""
    open_rows = [row for row in rows if row["oracle"] is not None and row["oracle"] > HEADROOM]
    return [(row["ratios"][spec] - 1.0) / (row["oracle"] - 1.0) for row in open_rows]


def targets(rows: Sequence[Row], planner: str, against: Sequence[str]) -> list[Target]:
    """Every target that these rows have something to say about."""

    def ratio(row: Row) -> float:
        return float(row["ratios"][planner])

    found = []
    if grid := rows_of(rows, "grid", planner):
        geometric, loaded = geomean([ratio(r) for r in grid]), geomean([ratio(r) / r["loaded"] for r in grid])
        found += [worst("grid, worst cell / best static", grid, 0.97, ratio, True)]
        found += [Target("grid, geometric mean / best static", geometric, 1.02, f"{len(grid)} cells", loaded)]
        if earned := shares(grid, planner):
            note = f"mean of {len(earned)} cells with more than {HEADROOM - 1:.0%} to earn, least {min(earned):.2f}"
            if known := rows_of(grid, "grid", INFORMED):
                both = [
                    math.fsum(shares(known, spec)) / max(len(shares(known, spec)), 1) for spec in (planner, INFORMED)
                ]
                note += f"; where confidences are recorded {both[0]:.2f}, informed planner {both[1]:.2f}"
            found.append(Target("grid, share of the oracle's headroom", mean(earned), 0.25, note))
    for other in against:
        if other == INFORMED:
            continue
        found += compared(rows_of(grid, "grid", other), planner, other)
    for part, what, target in (
        ("shift", "shift, worst phase / its best static", 0.95),
        ("churn", "churn, cold start, worst / best static", 0.93),
        ("seeds", "N=1, worst seed / best static", 0.90),
        ("confidences", "unreliable confidences, worst / best static", 0.97),
    ):
        if mine := rows_of(rows, part, planner):
            found.append(worst(what, mine, target, ratio, True))
    return found


def compared(rows: Sequence[Row], planner: str, other: str) -> list[Target]:
    """The planner against another one over the grid's cells that both ran in."""
    if not rows:
        return []

    def ratio(row: Row) -> float:
        return float(row["ratios"][planner] / row["ratios"][other])

    reference = other == REFERENCE
    usual = geomean([ratio(row) for row in rows])
    least = worst(f"grid, worst cell / {other}", rows, 0.98, ratio, False)
    found = Target(f"grid, geometric mean / {other}", usual, 1.03 if reference else 1.0, f"{len(rows)} cells")
    return [least, found] if reference else [found]


def figures(rows: Sequence[Row], spec: str) -> dict[str, float]:
    """Worst row and geometric mean of every part for one planner; where the oracle ran, the share of its headroom and
    the geometric mean of the ratio to it (the regret is what is missing to 1)."""
    found: dict[str, float] = {}
    for part in PARTS:
        if ratios := [row["ratios"][spec] for row in rows_of(rows, part, spec)]:
            found |= {f"{part}_worst": min(ratios), f"{part}_geomean": geomean(ratios), f"{part}_rows": len(ratios)}
    bounded = [row for row in rows_of(rows, "grid", spec) if row["oracle"] is not None]
    if bounded:
        found["of_oracle"] = geomean([row["ratios"][spec] / row["oracle"] for row in bounded])
    if earned := shares(bounded, spec):
        found["headroom_share"] = mean(earned)
    return found


def target_lines(found: Sequence[Target]) -> list[str]:
    lines = [f"{'what':47}{'figure':>8}{'target':>9}{'':>9}{'loaded':>9}  worst at"]
    for target in found:
        bound = f"{'<=' if target.at_most else '>='} {target.target:g}"
        loaded = "" if target.loaded is None else f"{target.loaded:.3f}"
        verdict = "reached" if target.reached else "MISSED"
        lines.append(f"{target.what:47}{target.figure:>8.3f}{bound:>9}{verdict:>9}{loaded:>9}  {target.where}")
    return lines


def figure_lines(by_spec: dict[str, dict[str, float]]) -> list[str]:
    """One line a planner; a part's worst row and geometric mean, with its number of rows in brackets."""
    width = max(map(len, by_spec)) + 2
    heads = "".join(f"{part:>19}" for part in PARTS)
    lines = [f"{'planner':{width}}{heads}{'of oracle':>11}{'headroom':>10}"]
    for spec, found in by_spec.items():
        shown = "".join(f"{part_text(found, part):>19}" for part in PARTS)
        bound = [f"{found[name]:.3f}" if name in found else "-" for name in ("of_oracle", "headroom_share")]
        lines.append(f"{spec:{width}}{shown}{bound[0]:>11}{bound[1]:>10}")
    return lines


def part_text(found: dict[str, float], part: str) -> str:
    if f"{part}_rows" not in found:
        return "-"
    return f"{found[f'{part}_worst']:.3f} {found[f'{part}_geomean']:.3f} ({found[f'{part}_rows']})"


def grid_lines(rows: Sequence[Row], planner: str) -> list[str]:
    """A line a trace and latency model, a column a concurrency: ratio to best static, then best static, oracle."""
    grid = rows_of(rows, "grid", planner)
    sizes = sorted({row["N"] for row in grid})
    lines = [f"{'trace, latency model':84}" + "".join(f"{f'N={size}':>18}" for size in sizes)]
    by_line: dict[str, dict[int, Row]] = {}
    for row in grid:
        by_line.setdefault(f"{row['case']}, {row['latency']}", {})[row["N"]] = row
    for name, cells in by_line.items():
        shown = "".join(f"{cell_text(cells.get(size), planner):>18}" for size in sizes)
        lines.append(f"{name:84}{shown}")
    return lines


def cell_text(row: Row | None, planner: str) -> str:
    if row is None:
        return ""
    best = row["best_static"].removeprefix("static:k=")
    oracle = "" if row["oracle"] is None else f" {row['oracle']:.3f}"
    return f"{row['ratios'][planner]:.3f} {best}{oracle}"


def special_lines(rows: Sequence[Row], specs: Sequence[str]) -> list[str]:
    """A line a row outside the grid: best static and every planner's ratio to it; seeds only the ten worst."""
    special = [row for row in rows if row["part"] in ("shift", "churn", "confidences")]
    seeds = sorted(rows_of(rows, "seeds", specs[0]), key=lambda row: row["ratios"][specs[0]])[:10]
    heads = "".join(f"{spec[-22:]:>24}" for spec in specs)
    lines = [f"{'part':13}{'case':48}{'latency model':44}{'N':>5}{'best':>13}{'loaded':>8}{heads}"]
    for row in special + seeds:
        ratios = "".join(f"{row['ratios'][s]:>24.3f}" if s in row["ratios"] else f"{'-':>24}" for s in specs)
        best, loaded = row["best_static"], f"{row['loaded']:.3f}"
        lines.append(f"{row['part']:13}{row['case']:48}{row['latency']:44}{row['N']:>5}{best:>13}{loaded:>8}{ratios}")
    return lines
