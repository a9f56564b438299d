"""The report of a folder: comparison in, `report.html` and pictures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.describe import Description
from lightspec_bench.files import write_atomically
from lightspec_bench.reports.acceptance import acceptance_chart
from lightspec_bench.reports.best_k import best_k_chart, best_k_frame
from lightspec_bench.reports.chart_loads import gain_chart, throughput_chart, verify_volume_chart
from lightspec_bench.reports.charts import Chart
from lightspec_bench.reports.figures import draw
from lightspec_bench.reports.html import report_page
from lightspec_bench.reports.html_policies import anchors, policies_section
from lightspec_bench.reports.html_published import published_section
from lightspec_bench.reports.html_ranking import ranking_section
from lightspec_bench.reports.pareto import pareto_chart
from lightspec_bench.reports.pictures import save
from lightspec_bench.reports.published import Published
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.ranking_chart import ranked_rows, ranking_chart
from lightspec_bench.reports.selection import select
from lightspec_bench.reports.styles import styles_of
from lightspec_bench.reports.themes import DEFAULT, Theme
from lightspec_bench.reports.time_parts import waterfall_chart
from lightspec_bench.reports.timeline import Timeline, timeline_chart


@dataclass(frozen=True, slots=True)
class Look:
    """How a report looks: the theme of its picture files, the setting that somebody said is current (a planner's name),
    GPUs per engine by latency model (1 where it is not named), and what a GPU is called where there is none."""

    theme: Theme = DEFAULT
    current: str | None = None
    num_gpus: Mapping[str, int] = field(default_factory=dict)
    device: str = "GPU"


def charts_of(
    comparison: pd.DataFrame,
    timelines: Sequence[Timeline] = (),
    by_load: bool = True,
    ranking: pd.DataFrame | None = None,
    look: Look | None = None,
) -> dict[str, Chart]:
    """File name without ending -> chart. The gain is left out where no cell ran without speculation; `by_load` False
    leaves out what is drawn against concurrency. Of many planners `selection.select` chooses those drawn; the ranking
    has them all, where there is anything to rank against."""
    look = look or Look()
    drawn = select(comparison)
    shown, more = drawn.of(comparison), _after(drawn.sentence)
    styles = styles_of(sorted(str(planner) for planner in shown["planner"].unique()))
    charts: dict[str, Chart] = {}
    if by_load:
        if shown["ratio_to_none"].notna().any():
            charts["gain"] = gain_chart(shown, styles, more)
        charts["pareto"] = pareto_chart(shown, look.num_gpus, styles, more, look.device)
        if len(best_k_frame(comparison)):
            charts["best_k"] = best_k_chart(comparison)
    charts["waterfall"] = waterfall_chart(shown, look.current, more)
    charts["acceptance"] = acceptance_chart(comparison)
    if by_load:
        charts["throughput"] = throughput_chart(shown, styles, more)
        charts["verify_volume"] = verify_volume_chart(shown, styles, more)
        if ranking is not None and ranked_rows(ranking):
            charts["ranking"] = ranking_chart(comparison, ranking[ranking["scope"] == OVERALL])
    for number, timeline in enumerate(timelines, start=1):
        few = replace(timeline, runs=[run for run in timeline.runs if run[0] in styles])
        if few.runs:
            charts[f"timeline_{number}"] = timeline_chart(few, styles, more)
    return charts


def _after(sentence: str) -> str:
    return f" {sentence}" if sentence else ""


def write_report(
    folder: Path,
    comparison: pd.DataFrame,
    timelines: Sequence[Timeline] = (),
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    published: Published | None = None,
    ranking: pd.DataFrame | None = None,
    descriptions: Sequence[Description] = (),
    look: Look | None = None,
) -> list[Path]:
    """Write `report.html` and a PNG and an SVG per chart into `folder`, each whole or not at all; returns their paths.

    `comparison` is the result of `comparison.compare`; `notes` are sentences shown under the summary (cells that
    were skipped, approximate replays); `published` figures are shown beside the comparison's; `ranking` is
    `ranking.with_absent`'s, `descriptions` are of the planners that get a part of the page. `BenchError` where a file
    cannot be written.
    """
    look = look or Look()
    by_load = published is None or comparison["concurrency"].nunique() > 1  # a claim at one load has its table
    charts = charts_of(comparison, timelines, by_load, ranking, look)
    first = published_section(comparison, published) if published else ""
    at = anchors([each.name for each in descriptions], comparison["planner"].unique())
    ranked = described = ""
    if ranking is not None:
        ranked = ranking_section(comparison, ranking, at)
        described = policies_section(descriptions, comparison, ranking, at) if descriptions else ""
    page = report_page(
        comparison, charts, settings or {}, environment or {}, notes, first, ranked, described, bool(look.current)
    )
    path = folder / "report.html"
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    figures = {name: draw(chart, look.theme) for name, chart in charts.items()}
    kinds = (".png", ".svg")
    return [path, *(save(figure, folder / f"{name}{kind}") for name, figure in figures.items() for kind in kinds)]
