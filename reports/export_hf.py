"""Export to Hugging Face transformers: settings of the assistant's generation config, or of prompt lookup.

Source: transformers 5.24.0, `generation/candidate_generator.py` and `configuration_utils.py`. A confidence threshold
of 0 turns the confidence rule off.
"""

from __future__ import annotations

import ast
from typing import Any

from lightspec_bench.core import BenchError
from lightspec_bench.registry import parse_spec
from lightspec_bench.reports.export_text import Deployment, Export, number_of, spec_of, unknown

ENGINE = "hf"
NUMBER, SCHEDULE, THRESHOLD = "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"
LOOKUP = "prompt_lookup_num_tokens"
_NOTES: tuple[str, ...] = ("transformers runs assisted generation with one sequence at a time.",)
_ROC = "The threshold moves with what is accepted only where scikit-learn is installed."


def write(spec: str, deployment: Deployment) -> Export:
    """Python lines for a static K, a heuristic schedule or a confidence threshold."""
    name, options = parse_spec(spec)
    if name == "none":
        return Export("", "Call model.generate without assistant_model and prompt_lookup_num_tokens.")
    settings, notes = _settings(name, options), _NOTES
    if settings is None:
        raise unknown(ENGINE, spec)
    if deployment.drafter_kind == "ngram":
        if name != "static":
            raise unknown(ENGINE, spec)
        text = f"{LOOKUP} = {settings[NUMBER]}"
        return Export(text, f"model.generate(**inputs, {LOOKUP}={settings[NUMBER]})", notes)
    if settings[THRESHOLD]:
        notes = (*notes, _ROC)
    text = "\n".join(f"assistant.generation_config.{key} = {value!r}" for key, value in settings.items())
    return Export(text, "model.generate(**inputs, assistant_model=assistant)", notes)


def _settings(name: str, options: dict[str, Any]) -> dict[str, Any] | None:
    if name == "static" and options.get("k", 0) > 0:
        return {NUMBER: options["k"], SCHEDULE: "constant", THRESHOLD: 0.0}
    if name == "hf-heuristic":
        return {NUMBER: options[NUMBER], SCHEDULE: options["schedule"], THRESHOLD: 0.0}
    if name == "hf-confidence":
        return {NUMBER: options["k"], SCHEDULE: "constant", THRESHOLD: options["threshold"]}
    return None


def read(text: str, deployment: Deployment) -> str:
    """The planner that such lines stand for. They are parsed, not run."""
    if not text.strip():
        return "none"
    found = _assignments(text)
    if LOOKUP in found:
        return spec_of("static", k=number_of(ENGINE, found, LOOKUP))
    number = number_of(ENGINE, found, NUMBER)
    if found.get(THRESHOLD):
        return spec_of("hf-confidence", threshold=found[THRESHOLD], k=number)
    if found.get(SCHEDULE) == "constant":
        return spec_of("static", k=number)
    return spec_of("hf-heuristic", num_assistant_tokens=number, schedule=found.get(SCHEDULE))


def _assignments(text: str) -> dict[str, Any]:
    """Last name and value of each `a.b.c = value` line."""
    found = {}
    try:
        for line in ast.parse(text).body:
            if not isinstance(line, ast.Assign):
                raise BenchError(f"{ENGINE}: {ast.unparse(line)!r} assigns nothing, expected lines NAME = VALUE")
            target = line.targets[0]
            name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            found[name] = ast.literal_eval(line.value)
    except (SyntaxError, ValueError) as error:
        raise BenchError(f"{ENGINE}: cannot be read: {error}") from error
    return found
