"""The report of a folder: comparison in, `report.html` and pictures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lightspec_bench.files import write_atomically
from lightspec_bench.reports.figures import FEW, acceptance_figure, gain_figure, throughput_figure, verify_volume_figure
from lightspec_bench.reports.html import Picture, report_page
from lightspec_bench.reports.html_published import published_section
from lightspec_bench.reports.pictures import save
from lightspec_bench.reports.published import Published
from lightspec_bench.reports.timeline import Timeline, timeline_figure


def pictures_of(
    comparison: pd.DataFrame, timelines: Sequence[Timeline] = (), by_load: bool = True
) -> dict[str, Picture]:
    """File name without ending -> picture. The gain is left out where no cell ran without speculation; `by_load`
    False leaves out what is drawn against concurrency."""
    pictures = _by_load(comparison) if by_load else {}
    pictures["acceptance"] = Picture(
        "Acceptance per draft position",
        "Left: share of proposals accepted at least up to k. Right: share accepted at k where all before it were; "
        f"outlined: fewer than {FEW} samples.",
        acceptance_figure(comparison),
    )
    for number, timeline in enumerate(timelines, start=1):
        pictures[f"timeline_{number}"] = Picture(
            f"Steps: {timeline.trace}, {timeline.latency}, concurrency {timeline.concurrency}",
            "Verify budget, draft depth and emitted tokens per request over the steps of each planner's run.",
            timeline_figure(timeline),
        )
    return pictures


def _by_load(comparison: pd.DataFrame) -> dict[str, Picture]:
    pictures = {
        "gain": Picture(
            "Throughput against no speculation",
            "Gain of each planner over no speculation by concurrency; grey: every static K, best static K known only "
            "in hindsight; bands: 95 % intervals.",
            gain_figure(comparison),
        ),
        "throughput": Picture(
            "Throughput",
            "Output tokens per second by concurrency, both scales logarithmic; grey: every static K.",
            throughput_figure(comparison),
        ),
        "verify_volume": Picture(
            "Verify volume",
            "Target rows per emitted token by concurrency: 1 without speculation, higher where more is verified in "
            "vain.",
            verify_volume_figure(comparison),
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
) -> list[Path]:
    """Write `report.html` and a PNG per picture into `folder`, each whole or not at all; returns their paths.

    `comparison` is the result of `comparison.compare`; `notes` are sentences shown under the answers (cells that
    were skipped, approximate replays); `published` figures are shown beside the comparison's. `BenchError` where a
    file cannot be written.
    """
    by_load = published is None or comparison["concurrency"].nunique() > 1  # a claim at one load has its table
    pictures = pictures_of(comparison, timelines, by_load)
    first = published_section(comparison, published) if published else ""
    page = report_page(comparison, list(pictures.values()), settings or {}, environment or {}, notes, first)
    path = folder / "report.html"
    write_atomically(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
    return [path, *(save(picture.figure, folder / f"{name}.png") for name, picture in pictures.items())]
