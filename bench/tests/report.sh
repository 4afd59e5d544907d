#!/usr/bin/env bash
# Opens a report of `binomesh-bench figures` in headless Chromium, as wide as a desk
# and as a telephone: no error on the console, every figure drawn, nothing wider than
# the page. Usage: bench/tests/report.sh [figures/report.html]
set -euo pipefail
report=$(realpath "${1:-figures/report.html}")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo "no browser: apt-get install chromium" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A copy of the report that tells the page around it how many figures are drawn.
probe='<script>addEventListener("load", () => {
    const charts = [...document.querySelectorAll("figure svg")].map(svg => {
        const box = svg.getBoundingClientRect();
        const curves = svg.querySelectorAll("polyline").length;
        return box.width > 100 && box.height > 100 && curves > 1;
    });
    const page = document.documentElement;
    parent.postMessage(`width=${innerWidth} figures=${charts.length} ` +
        `drawn=${charts.filter(Boolean).length} over=${page.scrollWidth - page.clientWidth}`, "*");
});</script>'
{ cat "$report"; printf '%s\n' "$probe"; } >"$work/report.html"

for width in 1280 390; do
    cat >"$work/around.html" <<HTML
<!DOCTYPE html><script>addEventListener("message", said => document.title = said.data);</script>
<iframe src="report.html" style="width: ${width}px; height: 900px; border: 0"></iframe>
HTML
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --user-data-dir="$work/profile-$width" --window-size=1400,1000 --virtual-time-budget=5000 \
        --enable-logging=stderr --dump-dom "file://$work/around.html" >"$work/page" 2>"$work/log"
    if grep 'CONSOLE' "$work/log"; then
        echo "FAILED: the page says something on the console" >&2
        exit 1
    fi
    seen=$(grep -o '<title>[^<]*' "$work/page" | head -1 | cut -c8-)
    echo "$seen"
    figures=$(grep -o '<figcaption>' "$report" | wc -l)
    if [ "$figures" = 0 ] || [ "$seen" != "width=$width figures=$figures drawn=$figures over=0" ]; then
        echo "FAILED: expected $figures figures, all drawn, and nothing over" >&2
        exit 1
    fi
done
