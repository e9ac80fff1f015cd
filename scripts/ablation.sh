#!/usr/bin/env bash
# Trains each row of EMS (2024), table XIV, at a small size, measures it, and writes all rows into one Markdown table.
#
#     scripts/ablation.sh SHARDS TOKENIZER DEV OUT [flags of `dragoman-train train`]
#
# SHARDS and TOKENIZER are those of `prepare` and `tokenizer`, DEV is the folder of evaluation files. The table is OUT/ablation.md;
# OUT/ROW has the run of each row and its measurements. What is done already is not done again, so an interrupted ablation goes on.
# DRAGOMAN_TRAIN names a program that is built already; without it, cargo builds one.
set -euo pipefail
if [ "$#" -lt 4 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
shards=$(realpath "$1") tokenizer=$(realpath "$2") dev=$(realpath "$3")
mkdir -p "$4"
out=$(realpath "$4")
shift 4
cd "$(dirname "$0")/.."
if [ -n "${DRAGOMAN_TRAIN:-}" ]; then
    train() { "$DRAGOMAN_TRAIN" "$@"; }
else
    train() { cargo run --quiet --release -p dragoman-training -- "$@"; }
fi
# In the order of the paper's table; LaBSE-EMS-MLP stands in its tables IV to VI only.
rows=(ems no-language-token no-contrastive no-xtr no-projection shared-embedding unified-generative labse-vanilla labse-mlp labse-joint)
for row in "${rows[@]}"; do
    config=training/configs/ablation/$row.toml
    run=$out/$row
    train train --config "$config" --data "$shards" --tokenizer "$tokenizer" --run "$run" "$@"
    # Weights of a stage are there when it is done; a run that stopped before is measured as it stands.
    weights=$run/encoder.safetensors
    [ -f "$weights" ] || weights=$run/checkpoint.safetensors
    if [ ! "$run/eval.md" -nt "$weights" ]; then
        train eval --weights "$weights" --config "$config" --tokenizer "$tokenizer" --data "$dev" >"$run/eval.partial"
        mv "$run/eval.partial" "$run/eval.md"
    fi
done
# One column per mean that `eval` prints, and the time that training took.
for row in "${rows[@]}"; do
    awk -v row="$row" '
        FNR == 1 { file++ }
        file == 1 && match($0, /: mean [0-9.]+/) {
            name = substr($0, 3, RSTART - 3); value = substr($0, RSTART + 7, RLENGTH - 7)
            if (name in seen) next
            seen[name]; names = names " " name " |"; rule = rule "---:|"; values = values " " value " |"
        }
        file == 2 && FNR > 1 { n = split($0, field, ","); steps = field[2]; time = field[n] }
        END {
            if (row == "ems") print "| row |" names " steps | seconds |\n|---|" rule "---:|---:|"
            print "| " row " |" values " " steps " | " time " |"
        }' "$out/$row/eval.md" "$out/$row/loss.csv"
done >"$out/ablation.partial"
mv "$out/ablation.partial" "$out/ablation.md"
cat "$out/ablation.md"
