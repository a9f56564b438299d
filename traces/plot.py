"""A small picture of a trace: acceptance per draft position, and how honest and sharp its confidences are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightspec_bench.files import write_atomically


def plot_description(description: dict[str, Any], path: str | Path) -> None:
    """Draw what `describe` found to an image; the ending of `path` decides the kind."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    _draw_acceptance(left, description)
    _draw_signals(right, description)
    origin = {"recorded": "recorded trace", "modelled": "modelled trace"}[description["origin"]]
    approximate = ", approximate (step-indexed)" if description["indexing"] == "step" else ""
    figure.suptitle(f"{description['name']}: {origin}{approximate}", fontsize=10)
    kind = Path(path).suffix.removeprefix(".") or "png"
    write_atomically(Path(path), lambda temporary: figure.savefig(temporary, dpi=150, format=kind))


def _draw_acceptance(axes: Any, description: dict[str, Any]) -> None:
    depth = range(1, description["max_draft_tokens"] + 1)
    for values, style, label in (
        (description["acceptance_rate_per_pos"], "o-", "survival, all positions"),
        (description["served"]["acceptance_rate_per_pos"], "^:", "survival, served by a static drafter"),
        (description["conditional_acceptance_rate_per_pos"], "s--", "given the prefix, all positions"),
    ):
        shown = [float("nan") if x is None else x for x in values]
        axes.plot(depth, shown, style, label=label, markersize=4)
    axes.set(xlabel="draft token", ylabel="acceptance rate per position", ylim=(0.0, 1.0))
    axes.legend(fontsize=8)


def _draw_signals(axes: Any, description: dict[str, Any]) -> None:
    depth = range(1, description["max_draft_tokens"] + 1)
    for signal, key, style, label in (
        ("confidence", "auc", "o-", "confidence AUC"),
        ("entropy", "auc", "^-", "negated entropy AUC"),
        ("confidence", "ece", "s--", "confidence ECE"),
    ):
        if description[signal] is not None:
            values = [float("nan") if x is None else x for x in description[signal][key]]
            axes.plot(depth, values, style, label=label, markersize=4)
    axes.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="draft token, its prefix accepted", ylabel="AUC (0.5: no information), ECE", ylim=(0.0, 1.0))
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
    else:
        axes.clear()
        axes.set_axis_off()
        axes.text(0.5, 0.5, "the trace has no confidences", ha="center", transform=axes.transAxes, fontsize=8)
