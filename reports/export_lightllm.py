"""Export to LightLLM: `--mtp_step`, and `--mtp_dynamic_verify` where its planner decides.

Source: LightLLM's `lightspec` branch at 414c39b. It has no schedule; dynamic verification is LightSpec's planner, for
`--mtp_mode dspark` DSpark's.
"""

from __future__ import annotations

from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, flags_of, number_of, spec_of, unknown

ENGINE = "lightllm"
PLANNERS = ("lightspec-reference", "dspark")
_NOTES = ("Dynamic verification is in LightLLM's lightspec branch; modes dspark and dflash refuse data parallelism.",)


def dynamic_spec(k: int, planner: str = "lightspec-reference") -> str:
    """LightLLM's own planner at `--mtp_step k`."""
    return spec_of("depth-limit", k=k, planner=planner)


def write(spec: str, deployment: Deployment) -> Export:
    """Flags of a static K or of dynamic verification. Raises `BenchError` for any other planner."""
    name, options = parse_spec(spec)
    if name == "none":
        return Export("", "Start LightLLM without --mtp_mode.")
    dynamic = name == "depth-limit" and options["planner"] in PLANNERS
    if not dynamic and (name != "static" or options.get("k", 0) == 0):
        raise unknown(ENGINE, spec)
    mode = deployment.method or ("dspark" if dynamic and options["planner"] == "dspark" else None)
    model = f" --mtp_draft_model_dir {deployment.model}" if deployment.model is not None else ""
    text = (f"--mtp_mode {mode} " if mode else "") + f"--mtp_step {options['k']}{model}"
    text += " --mtp_dynamic_verify" if dynamic else ""
    notes = (() if mode else ("Beside your own --mtp_mode and --mtp_draft_model_dir.",)) + (_NOTES if dynamic else ())
    return Export(text, f"python -m lightllm.server.api_server --model_dir MODEL {text}", notes)


def read(text: str, deployment: Deployment) -> str:
    """The planner that LightLLM's flags stand for."""
    if not text.strip():
        return "none"
    flags = flags_of(ENGINE, text)
    k = number_of(ENGINE, flags, "--mtp_step")
    if "--mtp_dynamic_verify" not in flags:
        return spec_of("static", k=k)
    return dynamic_spec(k, "dspark" if flags.get("--mtp_mode") == "dspark" else "lightspec-reference")
