"""What a profile says of captured sizes: which rows are worth timing, and which sizes the table carries."""

from __future__ import annotations

from collections.abc import Sequence

from lightspec_bench.profiling_fit import Padded
from lightspec_bench.runners.torch_drafter import TorchDrafter
from lightspec_bench.runners.torch_eagle import EagleDrafter
from lightspec_bench.runners.torch_engine import pass_name
from lightspec_bench.runners.torch_graphs import Graphs
from lightspec_bench.runners.torch_model import TorchModel
from lightspec_bench.runners.torch_profile import Timing


def step_rows(rows: Sequence[int], requests: int, width: int, graphs: Graphs) -> list[int]:
    """Of `rows`, those that N requests can have with up to D verify tokens each, N itself among them; the fewest of
    those that are padded to the same size."""
    found: dict[int, int] = {}
    for number in sorted({*rows, requests}):
        if requests <= number <= requests * (width + 1):
            found.setdefault(graphs.padded(number), number)
    return list(found.values())


def captured_sizes(
    target: TorchModel, drafter: TorchDrafter | None, timings: Sequence[Timing]
) -> tuple[dict[str, str], dict[str, Padded]]:
    """The header's captured sizes, up to the largest that was timed, and how passes of each part are padded.

    Of drafters only a chain head says its sizes: a parallel one is a line, and a model's first pass reads more rows
    than were verified.
    """
    graphs, labels, padded = target.graphs, dict[str, str](), dict[str, Padded]()
    refused, own = set(graphs.refused), {pass_name(target)}
    is_refused = {"target": refused & own, "draft": refused - own}
    parts = {"target": "verify"} | ({"draft": "first"} if isinstance(drafter, EagleDrafter) else {})
    for part, timed in parts.items():
        rows = [timing.shape.rows for timing in timings if timing.part == timed]
        sizes = [size for size in graphs.sizes if size <= max(map(graphs.padded, rows))]
        if sizes and not is_refused[part]:
            labels["graph_sizes" if part == "target" else "draft_graph_sizes"] = ",".join(map(str, sizes))
            padded[part] = graphs.padded
    return labels, padded
