#!/usr/bin/env bash
# Trains and measures a small version of each row of the papers, from text, and writes one Markdown table for each paper.
#
#     scripts/papers.sh TEXT DEV [SEEDS] [flags of `dragoman-train train`]
#
# TEXT is the folder of training text, DEV the folder of evaluation files. Each row is trained once with each of SEEDS (1,2,3). The
# tables, in runs/papers/papers.md, have means over the seeds and their deviations. runs/papers/ROW/seed-N has each run and its
# measurements; a row of only a few languages is measured only in these. A second call continues an interrupted one: it skips
# finished steps. DRAGOMAN_TRAIN is the program to use; without it, cargo builds one. `ROWS="ems-ems dueam-anchor"` chooses rows.
set -euo pipefail
if [ "$#" -lt 2 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
text=$(realpath "$1") dev=$(realpath "$2")
shift 2
seeds=1,2,3
if [ "$#" -gt 0 ] && [[ "$1" != -* ]]; then
    seeds=$1
    shift
fi
cd "$(dirname "$0")/.."
configs=training/configs/papers
out=runs/papers
mkdir -p "$out"
if [ -n "${DRAGOMAN_TRAIN:-}" ]; then
    train() { "$DRAGOMAN_TRAIN" "$@"; }
else
    train() { cargo run --quiet --release -p dragoman-training -- "$@"; }
fi
# Teachers come before the rows that learn from them. All rows share one tokenizer and one set of shards.
all=(ems-ems ems-no-language-token ems-no-contrastive ems-no-xtr ems-no-projection ems-shared-embedding ems-unified-generative
    ems-labse-vanilla ems-labse-mlp ems-labse-joint ems-contrastive-alone ems-distilled
    lightweight-xtr lightweight-smlm lightweight-ugt lightweight-ugt-alignment lightweight-ugt-alignment-similarity
    lightweight-layers-1 lightweight-layers-3 lightweight-layers-4 lightweight-layers-5 lightweight-layers-6
    dueam-anchor dueam-unsupervised dueam-weakly-supervised dueam-anchor-learner-alone dueam-translation-mining-alone)
read -r -a rows <<<"${ROWS:-${all[*]}}"
tokenizer=$out/tokenizer.json
if [ ! -f "$tokenizer" ]; then
    train tokenizer --config "$configs/ems/ems.toml" --raw "$text" --out "$out/tokenizer.partial"
    mv "$out/tokenizer.partial" "$tokenizer"
fi
if [ ! -f "$out/shards/done" ]; then
    train prepare --raw "$text" --exclude "$dev" --tokenizer "$tokenizer" --out "$out/shards"
    touch "$out/shards/done"
fi
# Prints the folder of evaluation files for a run: DEV, or a folder in the run with links to those files of DEV that are in the
# languages of its configuration. Files are named TASK.LANGUAGE.… or TASK.LANGUAGE-LANGUAGE.….
dev_of() { # CONFIGURATION RUN
    local languages folder=$2/dev file codes code
    languages=$(sed -n 's/^languages = //p' "$1" | tr -cd 'a-z,')
    if [ -z "$languages" ]; then
        echo "$dev"
        return
    fi
    rm -rf "$folder"
    mkdir "$folder"
    for file in "$dev"/*.*.*; do
        codes=$(basename "$file" | cut -d . -f 2)
        for code in ${codes//-/ }; do
            [[ ,$languages, == *,$code,* ]] || continue 2
        done
        ln -s "$file" "$folder"
    done
    echo "$folder"
}
for row in "${rows[@]}"; do
    config=$configs/${row%%-*}/${row#*-}.toml
    for seed in ${seeds//,/ }; do
        run=$out/$row/seed-$seed
        train train --config "$config" --data "$out/shards" --tokenizer "$tokenizer" --run "$run" --seed "$seed" "$@"
        # A stage's weights exist once it is done; a run that stopped earlier is measured in its current state.
        weights=$run/encoder.safetensors
        [ -f "$weights" ] || weights=$run/bag.safetensors
        [ -f "$weights" ] || weights=$run/checkpoint.safetensors
        if [ ! "$run/eval.md" -nt "$weights" ]; then
            files=$(dev_of "$config" "$run")
            train eval --weights "$weights" --config "$config" --tokenizer "$tokenizer" --data "$files" >"$run/eval.partial"
            mv "$run/eval.partial" "$run/eval.md"
        fi
    done
done
# One column per mean that `eval` prints: its mean over the seeds, and the deviation if there are several seeds.
# Each paper's first row starts a new table.
paper=
for row in "${rows[@]}"; do
    first=0
    if [ "${row%%-*}" != "$paper" ]; then
        [ -z "$paper" ] || echo
        first=1 paper=${row%%-*}
    fi
    awk -v row="$row" -v first="$first" '
        match($0, /: mean [0-9.]+/) {
            name = substr($0, 3, RSTART - 3); value = substr($0, RSTART + 7, RLENGTH - 7)
            # `eval` prints some means twice.
            if (seen[FILENAME, name]++) next
            if (!(name in count)) order[++names] = name
            count[name]++; sum[name] += value; squares[name] += value * value
        }
        END {
            if (first) {
                line = "| row |"; rule = "|---|"
                for (i = 1; i <= names; i++) { line = line " " order[i] " |"; rule = rule "---:|" }
                print line; print rule
            }
            line = "| `" row "` |"
            for (i = 1; i <= names; i++) {
                n = count[order[i]]; mean = sum[order[i]] / n
                variance = n > 1 ? (squares[order[i]] - n * mean * mean) / (n - 1) : 0
                line = line sprintf(n > 1 ? " %.2f ± %.2f |" : " %.2f |", mean, sqrt(variance > 0 ? variance : 0))
            }
            print line
        }' "$out/$row"/seed-*/eval.md
done >"$out/papers.partial"
mv "$out/papers.partial" "$out/papers.md"
cat "$out/papers.md"
