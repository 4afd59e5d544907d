"""Compare dashboards with the schema of Grafana 11.6, as the package grafana-foundation-sdk has it.

`check.py FILE...` names each field that the schema does not have, and each value of a wrong type.
Before that it breaks the first file in several ways, and fails if one of them goes unnoticed.
"""

import copy
import enum
import json
import re
import sys
import typing

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from typeguard import TypeCheckError, check_type

# Fields of the Prometheus data source's annotations. The schema leaves them to the plugin.
OF_THE_PLUGIN = re.compile(r"\.annotations\.list\[\d+\]\.(titleFormat|textFormat)$")


def lost(given, kept, path=""):
    """What the schema's objects did not keep of the file."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            here = f"{path}.{key}"
            if key in kept:
                yield from lost(value, kept[key], here)
            elif not OF_THE_PLUGIN.search(here):
                yield f"{here}: the schema has no such field"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for index, (one, other) in enumerate(zip(given, kept)):
            yield from lost(one, other, f"{path}[{index}]")
    elif given != kept:
        yield f"{path}: {given!r} would be {kept!r}"


def as_typed(value, hint):
    """The package keeps the values of enums, and the objects of some lists, as they stand in the file."""
    for kind in typing.get_args(hint) or (hint,):
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and value in [one.value for one in kind]:
            return kind(value)
        for inner in typing.get_args(kind):
            if isinstance(value, list) and hasattr(inner, "from_json"):
                return [inner.from_json(one) if isinstance(one, dict) else one for one in value]
    return value


def mistyped(value, path=""):
    """Values that are not of the type that the schema gives their field."""
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from mistyped(one, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from mistyped(one, f"{path}.{key}")
    elif type(value).__module__.startswith("grafana_foundation_sdk") and not isinstance(value, enum.Enum):
        hints = typing.get_type_hints(type(value))
        for field, one in vars(value).items():
            one = as_typed(one, hints[field])
            try:
                check_type(one, hints[field])
            except TypeCheckError:
                yield f"{path}.{field}: {one!r} is no {hints[field]}"
            yield from mistyped(one, f"{path}.{field}")


def unknown(dashboard):
    """Panels and queries of a type that the package does not know. It keeps those as they stand in the file."""
    for index, panel in enumerate(dashboard.panels):
        if panel.type_val == "row":
            continue
        if isinstance(panel.options, dict):
            yield f".panels[{index}].type: {panel.type_val!r} is no known type of a panel"
        if not panel.targets:
            yield f".panels[{index}].targets: a panel without a query"
        for target in panel.targets or []:
            source = None if isinstance(target, dict) else target.datasource
            if source is None or source.type_val != "prometheus":
                yield f".panels[{index}].targets: a query of another source than prometheus"
            elif not target.expr:
                yield f".panels[{index}].targets: a query without `expr`"


def faults(given):
    dashboard = Dashboard.from_json(copy.deepcopy(given))
    kept = json.loads(JSONEncoder().encode(dashboard))
    numbers = [panel["id"] for panel in given["panels"]]
    twice = {number for number in numbers if numbers.count(number) > 1}
    return [
        *lost(given, kept),
        *mistyped(dashboard),
        *unknown(dashboard),
        *(f".panels: the id {number} stands there twice" for number in twice),
    ]


def planted(given):
    """The file with one fault each: its name, and the file."""
    misspelt, text, mode, kind, source, empty, same = (copy.deepcopy(given) for _ in range(7))
    kind["panels"][1]["type"] = "stats"
    source["panels"][1]["targets"][0]["datasource"]["type"] = "prometeus"
    del empty["panels"][1]["targets"][0]["expr"]
    same["panels"][1]["id"] = same["panels"][2]["id"]
    misspelt["panels"][1]["targest"] = misspelt["panels"][1].pop("targets")
    text["panels"][1]["gridPos"]["w"] = "12"
    text_panels = [panel for panel in mode["panels"] if panel["type"] == "timeseries"]
    text_panels[0]["fieldConfig"]["defaults"]["custom"]["drawStyle"] = "waves"
    return {
        "misspelt field": misspelt,
        "text for a number": text,
        "unknown mode": mode,
        "unknown type of a panel": kind,
        "unknown data source": source,
        "query without a text": empty,
        "id of another panel": same,
    }


def main(files):
    register_default_plugins()
    found = 0
    for file in files:
        with open(file, encoding="utf-8") as text:
            given = json.load(text)
        if file == files[0]:
            for name, broken in planted(given).items():
                if not faults(broken):
                    sys.exit(f"the check does not see a planted {name}")
        for fault in faults(given):
            print(f"{file}: {fault}", file=sys.stderr)
            found += 1
    if not files or found:
        sys.exit(f"{len(files)} dashboards, {found} faults")
    print(f"{len(files)} dashboards, as the schema has them")


main(sys.argv[1:])
