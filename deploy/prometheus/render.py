#!/usr/bin/env python3
"""Write prometheus.yml and the rules from `templates` and `windows.yml`.

usage: render.py [SCALE [FOLDER]]

Durations are divided by SCALE, 1 unless given; 20 is for a test that cannot wait. FOLDER is
where the files go: beside this script unless given.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
FILES = {
    "prometheus.yml": "prometheus.yml",
    "recording.yml": "rules/recording.yml",
    "alerts.yml": "rules/alerts.yml",
}
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def windows():
    """The durations of windows.yml, in milliseconds by name."""
    found = {}
    for number, line in enumerate((HERE / "windows.yml").read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        parsed = re.fullmatch(r"(\w+): *(\d+)(ms|s|m|h|d)", line)
        if parsed is None or parsed[1] in found:
            sys.exit(f"windows.yml:{number}: not a new name and a duration: {line}")
        found[parsed[1]] = int(parsed[2]) * UNITS[parsed[3]]
    return found


def written(milliseconds):
    """A duration as Prometheus reads it, in the longest unit that leaves no rest."""
    unit = max((u for u in UNITS if milliseconds % UNITS[u] == 0), key=UNITS.get)
    return f"{milliseconds // UNITS[unit]}{unit}"


def main():
    scale = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else HERE
    durations = windows()
    unused = set(durations)

    def window(name):
        if name[1] not in durations:
            sys.exit(f"windows.yml has no {name[1]}")
        unused.discard(name[1])
        return written(durations[name[1]] // scale)

    for template, target in FILES.items():
        text = (HERE / "templates" / template).read_text()
        text = re.sub(r"@(\w+)@", window, text)
        notice = f"# Written by render.py from templates/{template} and windows.yml: change those.\n"
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (folder / target).write_text(notice + text)
    if unused:
        sys.exit(f"windows.yml: in no template: {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
