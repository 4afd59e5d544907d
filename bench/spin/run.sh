#!/usr/bin/env bash
# Checks the PROMELA models with SPIN: every configuration of `configurations` below,
# two at a time, and a table of what was searched. Fails if a search finds an error,
# does not come to its end (depth, memory), or does not find a bug that is planted.
# Usage: bench/spin/run.sh [--quick]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
quick=false
case "${1:-}" in
    --quick) quick=true ;;
    "") ;;
    *) echo "usage: $0 [--quick]" >&2; exit 2 ;;
esac
command -v spin >/dev/null || { echo "no SPIN: apt-get install spin" >&2; exit 1; }
command -v cc >/dev/null || { echo "no C compiler: apt-get install gcc" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
memory_mb=4000 # for each of the two
least_states=50000000
seconds_max=$($quick && echo 300 || echo 500)

# when | must | property | model | parameters | pan's -m (thousands) | -w
#   when   quick, or full: not in --quick
#   must   hold, or fail: a bug is planted
#   property  closure and other assertions, or recovery: weakly fair executions
#          reach legitimacy (stays: and never leave it; settles: all is delivered)
configurations() { grep -v '^ *#' "$here/configurations.txt" | grep '|'; }

# One search, in a folder of its own: leaves a line of the table in `row` and what is
# wrong with it in `wrong`.
search() {
    local number=$1 must property model parameters depth hash folder stored reached seconds memory wrong=
    IFS='|' read -r _ must property model parameters depth hash <<<"${2// | /|}"
    folder=$work/$number
    mkdir "$folder"
    cd "$folder"
    local -a defines flags options
    read -ra defines <<<"$parameters"
    options=("-m${depth}000" "-w$hash")
    case $property in
        assertions) flags=(-DSAFETY) ;;
        recovery) flags=(-DNFAIR=8) options+=(-a -f) defines+=(-DFAIR -DLIVELY=1) ;;
        settles) flags=(-DNFAIR=8) options+=(-a -f) defines+=(-DLIVELY) ;;
        stays) flags=(-DNFAIR=8) options+=(-a -f) defines+=(-DFAIR -DLIVELY=2) ;;
        *) echo "no such property: $property" >"$folder/wrong"; return ;;
    esac
    if ! { spin "${defines[@]}" -a "$here/$model.pml" &&
        cc -O2 -w -DNOREDUCE "-DMEMLIM=$memory_mb" "${flags[@]}" -o pan pan.c; } >log 2>&1; then
        { echo "does not build:"; cat log; } >"$folder/wrong"
        return
    fi
    timeout "$seconds_max" ./pan "${options[@]}" >log 2>&1 || true
    stored=$(awk '/states, stored/ { printf "%d", $1; exit }' log)
    reached=$(sed -nE 's/.*depth reached ([0-9]+).*/\1/p' log)
    seconds=$(sed -nE 's/^pan: elapsed time ([0-9.e+]+) seconds/\1/p' log)
    memory=$(awk '/total actual memory usage/ { printf "%d", $1 }' log)
    printf '%-7s %-10s %-4s %-64s %10s %8s %8s %8s\n' "$model" "$property" "$must" "$parameters" \
        "${stored:-?}" "${reached:-?}" "${seconds:-?}" "${memory:-?}" >row
    if ! grep -q 'errors: ' log; then
        wrong="gives no result"
    elif [ "$must" = hold ]; then
        grep -q 'errors: 0' log || wrong="finds an error"
        if grep -qE 'Search not completed|max search depth too small|out of memory|memory exceeded' log; then
            wrong="${wrong:+$wrong and }does not come to its end"
        fi
    elif [ ! -s "$model.pml.trail" ] || grep -q 'errors: 0' log; then
        wrong="does not find the bug that is planted"
    fi
    if [ -n "$wrong" ]; then { echo "$wrong:"; cat log; } >"$folder/wrong"; fi
    echo "${stored:-0} $must" >states
    rm -f pan pan.*
}

printf '%-7s %-10s %-4s %-64s %10s %8s %8s %8s\n' model property must parameters states depth seconds MB
started=$SECONDS
number=0
while IFS= read -r line; do
    if $quick && [ "${line%% *}" != quick ]; then continue; fi
    number=$((number + 1))
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
    search "$number" "$line" &
done < <(configurations)
wait

failed=false
total=0
for ((one = 1; one <= number; one++)); do
    if [ -f "$work/$one/row" ]; then cat "$work/$one/row"; fi
    if [ -f "$work/$one/wrong" ]; then
        failed=true
        { echo "FAILED: search $one:"; cat "$work/$one/wrong"; } >&2
    elif [ ! -f "$work/$one/states" ]; then
        failed=true
        echo "FAILED: search $one has ended without a result" >&2
    else
        read -r stored must <"$work/$one/states"
        if [ "$must" = hold ]; then total=$((total + stored)); fi
    fi
done
echo "$number searches, $total states stored in those that must hold, $((SECONDS - started)) s"
[ "$number" -gt 0 ] || { echo "FAILED: nothing was searched" >&2; exit 1; }
if ! $quick && [ "$total" -lt "$least_states" ]; then
    failed=true
    echo "FAILED: fewer than $least_states states" >&2
fi
if $failed; then exit 1; fi
