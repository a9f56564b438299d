"""Pictures: figures as bytes and as files, the same bytes for the same figure."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from lightspec_bench.core import BenchError
from lightspec_bench.files import write_atomically


def png(figure: Figure) -> bytes:
    """The figure as PNG, in its own resolution."""
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_figure(buffer, format="png", dpi=figure.dpi, metadata={"Software": None})
    return buffer.getvalue()


def svg(figure: Figure) -> bytes:
    """The figure as SVG, letters as outlines, without a date."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "lightspec-bench", "svg.fonttype": "path"}):
        FigureCanvasSVG(figure).print_figure(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG or SVG, by the name's ending, whole or not at all; `BenchError` for another ending."""
    formats = {".png": png, ".svg": svg}
    if path.suffix not in formats:
        raise BenchError(f"{path}: ending is {path.suffix!r}, expected .png or .svg")
    content = formats[path.suffix](figure)
    write_atomically(path, lambda temporary: temporary.write_bytes(content))
    return path
