"""Layout of a trace file: version, metadata key and columns, shared by writing and reading."""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 1
METADATA_KEY = b"lightspec_bench"
OPTIONAL = ("num_draft_tokens", "confidence", "entropy")


def schema(max_draft_tokens: int, optional: tuple[str, ...]) -> pa.Schema:
    """The columns of a file; `optional` names those of num_draft_tokens, confidence and entropy it has."""
    return pa.schema(
        [
            pa.field("request_id", pa.string(), nullable=False),
            pa.field("category", pa.string(), nullable=False),
            pa.field("arrival_s", pa.float64(), nullable=False),
            pa.field("num_prompt_tokens", pa.int64(), nullable=False),
            pa.field("num_output_tokens", pa.int64(), nullable=False),
            pa.field("repeats_from", pa.int64()),  # null: never falls into a loop
            *(pa.field(n, _list_type(n, max_draft_tokens), nullable=False) for n in ("num_accepted", *optional)),
        ]
    )


def _list_type(name: str, max_draft_tokens: int) -> pa.DataType:
    entry = pa.int16()
    if is_per_draft_token(name):
        entry = pa.list_(pa.field("element", pa.float32(), nullable=False), max_draft_tokens)
    return pa.list_(pa.field("element", entry, nullable=False))


def is_per_draft_token(name: str) -> bool:
    """Whether an entry of that list column is D numbers, one per draft token, instead of one count."""
    return name in ("confidence", "entropy")
