#!/usr/bin/env bash
# Check the configuration, the rules, their tests and their runbooks: one line for each check.
# Needs promtool (Debian: prometheus) and python3.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=deploy/prometheus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

for tool in promtool python3; do command -v "$tool" >/dev/null || fail "there is no $tool"; done

# Scale 1 is the shipped form. Scale 20 is for the live test of the gate.
for scale in 1 20; do
    python3 "$here/render.py" "$scale" "$work/$scale"
    # Promtool looks for these files.
    touch "$work/$scale"/{ca,monitor}.pem "$work/$scale/monitor.key"
    promtool check config "$work/$scale/prometheus.yml" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
    promtool check rules "$work/$scale"/rules/*.yml >>"$work/log" 2>&1 || fail "$(cat "$work/log")"
    [ "$(grep -c 'SUCCESS: [1-9][0-9]* rules found' "$work/log")" -ge 4 ] || fail "$(cat "$work/log")"
done
echo '[]' >"$work/1/targets.json"
cp "$here/local.yml" "$work/1/"
promtool check config "$work/1/local.yml" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
echo "configuration and rules are valid, as they are and 20 times as fast"

for file in prometheus.yml rules/alerts.yml rules/recording.yml; do
    diff -u "$here/$file" "$work/1/$file" || fail "$file is not what render.py writes: run it"
done
[ "$(ls "$here/rules")" = $'alerts.yml\nrecording.yml' ] || fail "a file of rules that no template has"
echo "they are what render.py writes"

alerts=$(sed -n 's/^ *- alert: //p' "$here/rules/alerts.yml" | sort)
count=$(wc -l <<<"$alerts")
[ "$count" -ge 17 ] && [ "$(sort -u <<<"$alerts" | wc -l)" = "$count" ] || fail "$count alerts, or one twice"
for part in 'severity: \(critical\|warning\|info\|none\)' 'summary: [A-Z].*\.' 'description: "\?[A-Z].*\."\?' \
    'runbook_url: docs/runbooks/[A-Za-z]*\.md'; do
    [ "$(grep -c "^ *$part\$" "$here/rules/alerts.yml")" = "$count" ] || fail "not every alert has $part"
done
diff <(sed -n 's/^| \[\(Binomesh[A-Za-z]*\)\].*/\1/p' docs/alerts.md | sort) - <<<"$alerts" ||
    fail "docs/alerts.md does not list the alerts"
echo "$count alerts have a severity, a summary, a description and a runbook"

diff <(sed -n 's/^ *runbook_url: //p' "$here/rules/alerts.yml" | sort) <(ls docs/runbooks/*.md) ||
    fail "alerts and runbooks differ"
diff <(basename -s .md docs/runbooks/*.md) - <<<"$alerts" || fail "a runbook is not named like its alert"
for book in docs/runbooks/*.md; do
    words=$(wc -w <"$book")
    [ "$words" -ge 80 ] && [ "$words" -le 200 ] || fail "$book has $words words, not 80 to 200"
    for part in "What it means" "How to confirm" "What to do"; do
        grep -qx "## $part" "$book" || fail "$book does not say: $part"
    done
    grep -q 'binomesh [a-z]' "$book" || fail "$book has no command of binomesh"
done
echo "each of them has a runbook, and there is no other"

grep -ohE '\bbinomesh_[a-z0-9_]+' "$here"/rules/*.yml docs/runbooks/*.md | sort -u >"$work/used"
sed -nE 's/^\| `([a-z0-9_]+)[`{].*/\1/p' docs/metrics.md | sort -u >"$work/known"
[ -s "$work/used" ] && [ -s "$work/known" ] || fail "no metrics were found"
unknown=$(comm -23 "$work/used" "$work/known")
[ -z "$unknown" ] || fail "not in docs/metrics.md: $unknown"
echo "the $(wc -l <"$work/used") metrics that they name are in docs/metrics.md"

# Recorded results, which begin with binomesh: instead of binomesh_.
for name in $(grep -ohE '\bbinomesh:[a-z_:]+' "$here/rules/alerts.yml" | sort -u); do
    grep -q "record: $name\$" "$here/rules/recording.yml" || fail "nothing records $name"
done
echo "what alerts read of recording rules is recorded"

python3 "$here/tests/run.py"
python3 "$here/tests/run.py" --planted
