#!/usr/bin/env bash
# Compare the dashboards with Grafana's schema. Needs python3 with venv, and PyPI.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
"$tools/bin/python" check.py dashboards/*.json
