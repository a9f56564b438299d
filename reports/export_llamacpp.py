"""Export to llama.cpp: n_max, n_min and p_min of its draft-model speculation, as flags.

Source: llama.cpp `common/speculative.cpp` and `common/arg.cpp`; the flags were renamed at the end of April 2026 (#22397
and what followed). Until 2025 the token below p_min stays in the draft, since 2026 it does not.
"""

from __future__ import annotations

from lightspec_bench.core import BenchError
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, flags_of, number_of, spec_of, unknown

ENGINE = "llama.cpp"
VERSIONS = ("2024", "2025", "2026")
OLD = ("--draft-max", "--draft-min", "--draft-p-min")
NEW = ("--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min")


def year_of(version: str | None) -> str:
    """The year whose flags and rules hold; the last one where none is given. Builds (b1234) are not told apart."""
    year = VERSIONS[-1] if version is None else version.removeprefix("v")
    if year not in VERSIONS:
        raise BenchError(f"--engine-version is {version!r}, expected the year of llama.cpp: {', '.join(VERSIONS)}")
    return year


def write(spec: str, deployment: Deployment) -> Export:
    """Flags of a static K or of n_max with p_min. Raises `BenchError` for an n-gram drafter, which has flags of its
    own, or for any other planner."""
    year, (name, options) = year_of(deployment.version), parse_spec(spec)
    if name == "none":
        return Export("", "Start llama-server without a draft model.")
    if deployment.drafter_kind == "ngram":
        raise BenchError("llama.cpp: its n-gram drafters have flags of their own, expected a trace of a draft model")
    if name == "static" and options.get("k", 0) > 0:
        values = options["k"], 0, 0.0
    elif name == "llamacpp" and options["version"] == f"v{year}":
        values = options["n_max"], options["n_min"], options["p_min"]
    else:
        raise unknown(ENGINE, spec)
    model = f"--model-draft {deployment.model} " if deployment.model is not None else ""
    flags = NEW if year == VERSIONS[-1] else OLD
    text = model + " ".join(f"{flag} {value}" for flag, value in zip(flags, values, strict=True))
    notes = () if model else ("Beside your own --model-draft.",)
    return Export(text, f"llama-server --model MODEL {text}", notes)


def read(text: str, deployment: Deployment) -> str:
    """The planner that llama.cpp's flags stand for in that year's version; what is left out has its defaults."""
    if not text.strip():
        return "none"
    year = year_of(deployment.version)
    flags = flags_of(ENGINE, text)
    names = NEW if year == VERSIONS[-1] else OLD
    found = {key: flags[flag] for key, flag in zip(("n_max", "n_min", "p_min"), names, strict=True) if flag in flags}
    if len(found) == 3 and float(found["p_min"]) == 0.0 and found["n_min"] == "0":
        return spec_of("static", k=number_of(ENGINE, flags, names[0]))
    numbers = {key: float(value) if key == "p_min" else int(value) for key, value in found.items()}
    return spec_of("llamacpp", version=f"v{year}", **numbers)
