# Sourced by `run` and `nightly`, which have changed to the top folder.
# Incremental artefacts are of use to nobody here.
export CARGO_TERM_COLOR=never RUST_BACKTRACE=1 CARGO_INCREMENTAL=0

log=$(mktemp)
trap 'rm -f "$log"' EXIT

step_name=
step_began=$SECONDS

# End the step before, with its time, and begin another.
step() {
    if [ -n "$step_name" ]; then
        printf -- '-- %s s: %s\n' $((SECONDS - step_began)) "$step_name"
    fi
    step_name=$*
    step_began=$SECONDS
    if [ -n "$step_name" ]; then printf '\n== %s\n' "$step_name"; fi
}

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Install the Debian packages that tests need.
packages() {
    local missing=() package command
    for package in jq chromium spin valgrind nftables iproute2 slurm-wlm munge openmpi-bin dnsmasq-base \
        curl procps python3-venv systemd prometheus faketime; do
        case $package in
        nftables) command=nft ;;
        iproute2) command=ip ;;
        slurm-wlm) command=slurmctld ;;
        munge) command=munged ;;
        openmpi-bin) command=mpirun ;;
        dnsmasq-base) command=dnsmasq ;;
        procps) command=sysctl ;;
        systemd) command=systemd-analyze ;;
        # A Python of one's own has it, too.
        python3-venv)
            if python3 -c "import ensurepip" 2>/dev/null; then continue; fi
            command=none
            ;;
        *) command=$package ;;
        esac
        command -v "$command" >/dev/null || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    fi
}

# Run tests; none may be ignored, filtered out or skipped, and all end within 40 minutes.
tested() {
    timeout -k 10 2400 "$@" 2>&1 | tee "$log" || fail "a test failed, or did not end: $*"
    if grep -E '^test result:' "$log" | grep -qvE ' 0 ignored; 0 measured; 0 filtered out'; then
        fail "skipped tests in: $*"
    fi
    if grep 'skipped: ' "$log"; then fail "skipped tests in: $*"; fi
    grep -qE '^test result: ok\. [1-9]' "$log" || fail "no test ran in: $*"
}

# Form and verify a cluster of `binomesh` $1 with $2 nodes in the shape $3, sum the memory
# of its processes, and stop it.
formed() {
    local events up bytes
    events=$(mktemp)
    "$1" up --nodes "$2" --shape "$3" --json >"$events" 2>"$log" &
    up=$!
    while kill -0 "$up" 2>/dev/null && ! grep -q '"event":"ready"' "$events"; do sleep 0.2; done
    kill -TERM "$up" && wait "$up" || fail "$2 nodes, $3: $(cat "$log")"
    bytes=$(jq 'select(.event == "verified").pss_bytes' "$events")
    jq -c 'select(.event == "formed" or .event == "verified")' "$events"
    rm -f "$events"
    [ "$bytes" -lt $((2 << 30)) ] || fail "$2 nodes, $3: $bytes bytes"
}
