#!/usr/bin/env python3
"""Test the alerts: each fires when it should, and not before, not after, not below its threshold.

usage: run.py            all cases of cases.py, by `promtool test rules`
       run.py --planted  change each threshold, `for` and window by a little: a test must see it

The series are of recorded clusters (`series`, by record.py). Most faults are in the recordings;
of those that a short recording cannot have, such as a month that passes, a case changes single
series and says so.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RULES = HERE.parent / "rules"
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
STEP = 15


def expanded(text):
    """The samples of runs: `0*3 _*1` is 0, 0, 0 and none."""
    return [value for run in text.split() for value, count in [run.split("*")] for _ in range(int(count))]


def recorded(name):
    """All series of a recording, by name and labels, each a list of samples."""
    recording = json.loads((HERE / "series" / f"{name}.json").read_text())
    found = {}
    for node, series in recording["series"].items():
        target = ",".join(f'{key}="{value}"' for key, value in sorted(recording["targets"][node].items()))
        for key, runs in series.items():
            bare, _, own = key.rstrip("}").partition("{")
            found[f"{bare}{{{','.join(filter(None, [target, own]))}}}"] = expanded(runs)
    return found


def labels_of(key):
    name, _, rest = key.partition("{")
    return name, dict(re.findall(r'(\w+)="([^"]*)"', rest))


def chosen(series, name, labels):
    """The keys of the series with this name and, among others, these labels."""
    keys = []
    for key in series:
        its_name, its_labels = labels_of(key)
        if its_name == name and labels.items() <= its_labels.items():
            keys.append(key)
    return keys


def input_of(case, changes):
    """The samples that a case is about, with these changes."""
    first, last, hold = case["part"]
    series = {key: values[first:last] for key, values in recorded(case["recording"]).items()}
    series = {key: values + values[-1:] * hold for key, values in series.items()}
    read = read_by(case["alert"])
    series = {key: values for key, values in series.items() if labels_of(key)[0] in read}
    for name, labels, samples, *others in changes:
        keys = chosen(series, name, labels)
        if not keys:
            sys.exit(f"{case['alert']}: the recording has no {name} with {labels}")
        for key in keys:
            # With other labels it is one more series.
            values = series[key] if others else series.pop(key)
            if samples is not None:
                new = [str(samples(at, value)) for at, value in enumerate(values)]
                series[relabelled(key, *others)] = new
    return {key: with_ends(values) for key, values in series.items()}


def read_by(alert):
    """The metrics that the rule of an alert reads, directly or as recorded; those of all rules
    if it is none."""
    recording = (RULES / "recording.yml").read_text()
    rule = alerts().get(alert, recording + "".join(alerts().values()))
    for record in recording.split("- record: ")[1:]:
        if record.split("\n", 1)[0] in rule:
            rule += record
    return {"up", "binomesh_ready", *re.findall(r"\bbinomesh_\w+", rule)}


def relabelled(key, others=None):
    """The name of a series with other labels, `__name__` among them, or with more."""
    name, labels = labels_of(key)
    labels |= others or {}
    name = labels.pop("__name__", name)
    written = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{written}}}"


def with_ends(values):
    """A series that ends is over at once, as it is after a failed scrape."""
    before = ["_", *values]
    return [
        "stale" if value == "_" and last != "_" else value for last, value in zip(before, values)
    ]


def begins(case, series):
    """The sample at which the fault is first seen, by a series that shows it."""
    if isinstance(case["since"], int):
        return case["since"]
    if callable(case["since"]):
        return case["since"](series)
    name, labels, is_so = case["since"]
    found = [
        at
        for key in chosen(series, name, labels)
        for at, value in enumerate(series[key])
        if value not in ("_", "stale") and is_so(float(value))
    ]
    if not found:
        sys.exit(f"{case['alert']}: the recording does not show its fault")
    return min(found)


def seconds(text):
    units = {"s": 1, "m": 60, "h": 3600}
    return int(text[:-1]) * units[text[-1]]


def test_of(alert, label, series, expected):
    """One test of promtool: at each time, these alerts."""
    return {
        "name": f"{alert}: {label}",
        "interval": f"{STEP}s",
        "input_series": [
            {"series": key, "values": " ".join(values)} for key, values in sorted(series.items())
        ],
        "alert_rule_test": [
            {"eval_time": f"{at}s", "alertname": alert, "exp_alerts": alerts} for at, alerts in expected
        ],
    }


def tests_of(case):
    alert = case["alert"]
    series = input_of(case, case["changes"])
    start = begins(case, series) * STEP
    fires = start + seconds(case["after"])
    annotations = {
        "summary": case["summary"],
        "description": case["description"],
        "runbook_url": f"docs/runbooks/{alert}.md",
    }
    alerts = [
        {"exp_labels": {"severity": case["severity"], **labels}, "exp_annotations": annotations}
        for labels in case["labels"]
    ]
    expected = [(fires, alerts)]
    if fires > 0:
        expected.insert(0, (fires - STEP, []))
    if "lasts" in case:
        # Of a sample at the very edge of a window, releases of Prometheus differ.
        over = start + seconds(case["lasts"])
        expected += [(over - 2 * STEP, alerts), (over, [])]
    yield test_of(alert, "fires", series, expected)
    for label, changes in case["not_when"].items():
        yield test_of(alert, label, input_of(case, changes), [(fires, [])])


def moments():
    """What fires while a recording runs, and nothing else."""
    from cases import MOMENT_CHANGES, MOMENTS, WHOLE

    whole = {"alert": "moments", "recording": "cluster", "part": WHOLE}
    expected = [
        {
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "eval_time": f"{at}s",
            "exp_samples": [
                {"labels": f'{{alertname="{alert}"}}', "value": count}
                for alert, count in firing.items()
                if count > 0
            ],
        }
        for at, firing in MOMENTS.values()
    ]
    return test_of("all alerts", "as recorded", input_of(whole, MOMENT_CHANGES), []) | {
        "promql_expr_test": expected
    }


def document(cases, rules, others=()):
    files = [str(rules / name) for name in ("recording.yml", "alerts.yml")]
    return {
        "rule_files": files,
        "evaluation_interval": f"{STEP}s",
        # Otherwise alerts may read what was recorded one evaluation ago.
        "group_eval_order": ["binomesh-recording", "binomesh-alerts"],
        "tests": [*(test for case in cases for test in tests_of(case)), *others],
    }


def promtool(cases, rules, folder, others=()):
    """What promtool says, or nothing if all is well."""
    path = pathlib.Path(folder) / "test.yml"
    path.write_text(json.dumps(document(cases, rules, others)))
    run = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def alerts():
    """The text of each alert's rule, by its name."""
    rules = (RULES / "alerts.yml").read_text().split("      - alert: ")[1:]
    return {rule.split("\n", 1)[0]: rule for rule in rules}


def planted(name, rule):
    """Changes of one rule, or of the recording rule that it reads, each in words."""
    moved = lambda by: lambda found: f"{found[1]}{int(found[2]) * {'s': 1, 'm': 60, 'h': 3600}[found[3]] + by}s"
    for threshold in re.finditer(r"(?:[<>]=?|==) (-?[\d.]+)\n", rule):
        value = float(threshold[1])
        others = (value - 2, value + 2) if abs(value) <= 5 and value == int(value) else (value * 0.5, value * 1.5)
        for other in others:
            where = slice(threshold.start(1), threshold.end(1))
            yield f"threshold {other}", rule[: where.start] + str(other) + rule[where.stop :]
    for pattern in (r"(for: )(\d+)([smh])", r"(\[)(\d+)([smh])"):
        by = 2 * STEP if pattern.startswith("(\\[") else STEP
        for by in (-by, by):
            if re.search(pattern, rule):
                what = "for" if pattern.startswith("(for") else "window"
                yield f"{what} {by:+} s", re.sub(pattern, moved(by), rule, count=1)
    if name == "BinomeshWatchdog":
        yield "it never fires", rule.replace("vector(1)", "vector(1) > 1")


def plant(cases):
    unseen = count = 0
    text = (RULES / "alerts.yml").read_text()
    for name, rule in alerts().items():
        own = [case for case in cases if case["alert"] == name]
        for what, other in planted(name, rule):
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                (folder / "recording.yml").write_text((RULES / "recording.yml").read_text())
                (folder / "alerts.yml").write_text(text.replace(rule, other))
                said = promtool(own, folder, folder)
            count += 1
            if "got:" not in said:
                unseen += 1
                print(f"{name}: {what}: no test sees it {said}")
    print(f"{count} changes of {len(alerts())} alerts, {count - unseen} seen by a test")
    return unseen == 0 and count >= len(alerts())


def main():
    from cases import CASES, MOMENTS

    tested = {case["alert"] for case in CASES}
    if tested != set(alerts()):
        sys.exit(f"alerts and cases differ: {sorted(tested ^ set(alerts()))}")
    if sys.argv[1:] == ["--planted"]:
        sys.exit(not plant(CASES))
    with tempfile.TemporaryDirectory() as folder:
        said = promtool(CASES, RULES, folder, [moments()])
    if said:
        sys.exit(said)
    count = sum(1 for case in CASES for _ in tests_of(case))
    print(f"{count} tests of {len(tested)} alerts passed, and of {len(MOMENTS)} moments of a recording")


if __name__ == "__main__":
    main()
