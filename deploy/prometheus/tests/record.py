#!/usr/bin/env python3
"""Record what the rules read of a live cluster, for the tests.

usage: record.py URL START END FILE

URL is of a Prometheus that scrapes the cluster with this folder's prometheus.yml, or one like
it. START and END are seconds since 1970. The file has each series as runs of equal samples, a
`_` where there is none. Timestamps among the values are made relative to START, which is 0 in
the tests.
"""

import itertools
import json
import pathlib
import re
import sys
import urllib.parse
import urllib.request

RULES = pathlib.Path(__file__).resolve().parent.parent / "rules"
STEP = 15
# Labels of the target, which all of its series have.
TARGET = ("job", "instance", "cluster", "node")


def names():
    """The metrics that the rules read."""
    text = "".join(path.read_text() for path in sorted(RULES.glob("*.yml")))
    return sorted({"up", *re.findall(r"\bbinomesh_\w+", text)})


def asked(url, query, start, end):
    words = {"query": query, "start": start, "end": end, "step": STEP}
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{urllib.parse.urlencode(words)}") as answer:
        return json.load(answer)["data"]["result"]


def runs(values):
    counted = ((value, len(list(same))) for value, same in itertools.groupby(values))
    return " ".join(f"{value}*{count}" for value, count in counted)


def main():
    url, start, end, file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    targets, series = {}, {}
    for name in names():
        for found in asked(url, f'{name}{{job="binomesh"}}', start, end):
            labels = found["metric"]
            node = labels["node"]
            targets[node] = {key: labels[key] for key in TARGET}
            own = ",".join(
                f'{key}="{value}"'
                for key, value in sorted(labels.items())
                if key not in TARGET and key != "__name__"
            )
            samples = dict(found["values"])
            base = start if name.endswith("_timestamp_seconds") else 0
            values = [
                str(int(samples[at]) - base) if base and at in samples else samples.get(at, "_")
                for at in range(start, end, STEP)
            ]
            key = f"{name}{{{own}}}" if own else name
            series.setdefault(node, {})[key] = runs(values)
    recording = {"step_seconds": STEP, "targets": targets, "series": series}
    pathlib.Path(file).write_text(json.dumps(recording, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
