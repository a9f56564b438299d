"""The report of a folder: comparison in, `report.html` and pictures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.describe import Description
from lightspec_bench.files import write_atomically
from lightspec_bench.reports.figures import FEW, acceptance_figure, gain_figure, throughput_figure, verify_volume_figure
from lightspec_bench.reports.html import Picture, report_page
from lightspec_bench.reports.html_policies import anchors, policies_section
from lightspec_bench.reports.html_published import published_section
from lightspec_bench.reports.html_ranking import ranking_section
from lightspec_bench.reports.pictures import save
from lightspec_bench.reports.published import Published
from lightspec_bench.reports.ranking import OVERALL
from lightspec_bench.reports.ranking_figure import FLOOR, ranked_rows, ranking_figure
from lightspec_bench.reports.selection import select
from lightspec_bench.reports.styles import Styles, styles_of
from lightspec_bench.reports.timeline import Timeline, timeline_figure


def pictures_of(
    comparison: pd.DataFrame,
    timelines: Sequence[Timeline] = (),
    by_load: bool = True,
    ranking: pd.DataFrame | None = None,
) -> dict[str, Picture]:
    """File name without ending -> picture. The gain is left out where no cell ran without speculation; `by_load`
    False leaves out what is drawn against concurrency. Of many planners `selection.select` chooses those drawn; the
    picture of the ranking has them all, where there is anything to rank against."""
    drawn = select(comparison)
    shown = drawn.of(comparison)
    styles = styles_of(sorted(str(planner) for planner in shown["planner"].unique()))
    pictures = _by_load(shown, styles, drawn.sentence) if by_load else {}
    if by_load and ranking is not None and ranked_rows(ranking):
        pictures = {"ranking": _ranking(comparison, ranking), **pictures}
    pictures["acceptance"] = Picture(
        "Acceptance per draft position",
        "Left: share of proposals accepted at least up to k. Right: share accepted at k where all before it were; "
        f"outlined: fewer than {FEW} samples.",
        acceptance_figure(comparison),
    )
    for number, timeline in enumerate(timelines, start=1):
        few = replace(timeline, runs=[run for run in timeline.runs if run[0] in styles])
        if few.runs:
            pictures[f"timeline_{number}"] = Picture(
                f"Steps: {timeline.trace}, {timeline.latency}, concurrency {timeline.concurrency}",
                "Verify budget, draft depth and emitted tokens per request over the steps of each planner's run."
                + _after(drawn.sentence),
                timeline_figure(few, styles),
            )
    return pictures


def _after(sentence: str) -> str:
    return f" {sentence}" if sentence else ""


def _ranking(comparison: pd.DataFrame, ranking: pd.DataFrame) -> Picture:
    return Picture(
        "Ranking over all cells",
        "Throughput of each planner against the best static K of each cell, known only in hindsight: a dot per cell, a "
        "cross where it loses to no speculation, the diamond their geometric mean with its 95 % interval. Cells slower "
        f"by more than {-FLOOR:.0f} % are drawn at the left edge.",
        ranking_figure(comparison, ranking[ranking["scope"] == OVERALL]),
    )


def _by_load(comparison: pd.DataFrame, styles: Styles, sentence: str) -> dict[str, Picture]:
    pictures = {
        "gain": Picture(
            "Throughput against no speculation",
            "Gain of each planner over no speculation by concurrency; grey: every static K, best static K known only "
            f"in hindsight; bands: 95 % intervals.{_after(sentence)}",
            gain_figure(comparison, styles),
        ),
        "throughput": Picture(
            "Throughput",
            "Output tokens per second by concurrency, both scales logarithmic; grey: every static K."
            + _after(sentence),
            throughput_figure(comparison, styles),
        ),
        "verify_volume": Picture(
            "Verify volume",
            "Target rows per emitted token by concurrency: 1 without speculation, higher where more is verified in "
            f"vain.{_after(sentence)}",
            verify_volume_figure(comparison, styles),
        ),
    }
    if comparison["ratio_to_none"].isna().all():
        del pictures["gain"]
    return pictures


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
) -> list[Path]:
    """Write `report.html` and a PNG per picture into `folder`, each whole or not at all; returns their paths.

    `comparison` is the result of `comparison.compare`; `notes` are sentences shown under the answers (cells that
    were skipped, approximate replays); `published` figures are shown beside the comparison's; `ranking` is
    `ranking.with_absent`'s, `descriptions` are of the planners that get a part of the page. `BenchError` where a file
    cannot be written.
    """
    by_load = published is None or comparison["concurrency"].nunique() > 1  # a claim at one load has its table
    pictures = pictures_of(comparison, timelines, by_load, ranking)
    first = published_section(comparison, published) if published else ""
    at = anchors([each.name for each in descriptions], comparison["planner"].unique())
    ranked = described = ""
    if ranking is not None:
        ranked = ranking_section(comparison, ranking, at)
        described = policies_section(descriptions, comparison, ranking, at) if descriptions else ""
    shown = list(pictures.values())
    page = report_page(comparison, shown, settings or {}, environment or {}, notes, first, ranked, described)
    path = folder / "report.html"
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return [path, *(save(picture.figure, folder / f"{name}.png") for name, picture in pictures.items())]
