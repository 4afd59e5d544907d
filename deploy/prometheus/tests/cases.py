"""Of each alert, when it fires and when not; run.py explains and runs them.

`part` says which samples of the recording: the first, the one behind the last, and how often
the last is repeated. A change names a series, some of its labels, and what its samples are;
None removes it; labels behind that make it one more series.

`since` is the sample at which the fault begins, or a series and what it shows then. The alert
fires `after` that, and not one sample earlier. `lasts` is until when a fault of one sample is
seen. Durations stand here once more, so that a change of windows.yml shows.
"""

import json
import pathlib

LIVE = json.loads((pathlib.Path(__file__).parent / "series" / "cluster.json").read_text())
CLUSTER = "binomesh.local"
# Two minutes of a settled cluster of 8 whose last sample goes on.
QUIET = (2, 8, 120)
WHOLE = (0, None, 0)


def case(alert, severity, labels, summary, description, since, **more):
    fixed = {"recording": "cluster", "part": QUIET, "after": "0s", "changes": [], "not_when": {}}
    return fixed | more | {
        "alert": alert,
        "severity": severity,
        "labels": labels,
        "summary": summary,
        "description": description,
        "since": since,
    }


def of(node, **more):
    return {"cluster": CLUSTER, "node": node, **more}


def instance(node):
    return LIVE["targets"][node]["instance"]


def always(value):
    return lambda at, former: value


def from_then(then, value):
    """The former samples, and this value from some sample on."""
    return lambda at, former: value if at >= then else former


def counted(then, count):
    """A counter of which so many are counted at some sample."""
    return lambda at, former: float(former) + (count if at >= then else 0)


def growing(then, before, after):
    """A counter that grows by so much each sample, and by something else from some sample on."""
    return lambda at, former: before * min(at, then) + after * max(0, at - then)


def issued(life, labels=None):
    """Documents that end when they do, and are issued for so many seconds."""
    begun = lambda at, former: former if former == "_" else int(float(former)) - life
    return (LEFT, labels or {}, begun, {"__name__": BEGUN})


def slow(kind, samples):
    """What node-1 tells of node-6. There is no such series while nobody is slow."""
    labels = {"__name__": "binomesh_slow_peer", "peer": "node-6", "kind": kind}
    return ("binomesh_ready", {"node": "node-1"}, lambda at, former: samples(at), labels)


def two_epochs(series):
    """When members have two epochs, and still have them nine samples later."""
    epochs = [values for key, values in series.items() if key.startswith("binomesh_epoch{")]
    differ = [
        len({sample for sample in samples if sample not in ("_", "stale", "0")}) > 1
        for samples in zip(*epochs)
    ]
    return next(at for at in range(len(differ)) if all(differ[at : at + 9]))


FOURTEEN_DAYS = 14 * 86_400
LEFT = "binomesh_credential_end_timestamp_seconds"
BEGUN = "binomesh_credential_begin_timestamp_seconds"
REFUSED = "binomesh_transport_handshake_failures_total"
STRANGER = {"node": "node-0", "reason": "unknown_authority"}
DUTIES = {"node": "node-1", "queue": "duties"}
SEND_BUFFER = "binomesh_transport_socket_send_buffer_bytes"

THROUGHOUT = {"BinomeshWatchdog": 1}
KILLED = {"BinomeshNodeDown": 1, "BinomeshClusterNotWhole": 1}
PUSHED = {"BinomeshPushesFail": 1}

# What fires at which second of the recording, and how often: these, and no other. Node-5 is
# killed at 2:00, a push is refused at 3:00, node-6 is stopped from 4:30 to 5:50, the network is
# parted from 6:30 to 9:00, a subscriber stops reading at 10:00, a reload fails at 10:35.
# The recording is older than BEGUN; the certificates of a cluster of `binomesh up` hold for a week.
MOMENT_CHANGES = [issued(7 * 86_400)]
MOMENTS = {
    "settled": (105, THROUGHOUT),
    "half a minute after a death": (165, THROUGHOUT),
    "after a death and a refused push": (255, THROUGHOUT | KILLED | PUSHED),
    "one more is stopped for a minute": (
        345,
        THROUGHOUT | KILLED | PUSHED | {"BinomeshNodeDown": 2},
    ),
    "two minutes after a partition": (
        540,
        THROUGHOUT | KILLED | PUSHED | {"BinomeshTwoOverlays": 1},
    ),
    "healed": (585, THROUGHOUT | KILLED | PUSHED),
    "a subscriber stops reading, and a reload fails": (
        660,
        THROUGHOUT | KILLED | PUSHED | {"BinomeshSubscriberMissed": 1, "BinomeshReloadFailed": 1},
    ),
}

CASES = [
    case(
        "BinomeshWatchdog",
        "none",
        [{}],
        "Alerts are evaluated and sent.",
        "This alert always fires. Let a receiver outside notice when it does not come any more.",
        0,
    ),
    case(
        "BinomeshNoTargets",
        "critical",
        [{"job": "binomesh"}],
        "Prometheus knows no node of Binomesh.",
        "No node has given its list of targets, so no other alert about nodes can fire.",
        20,
        after="5m",
        changes=[("up", {}, from_then(20, "_"))],
        not_when={
            "one target is left": [
                ("up", {"node": f"node-{n}"}, from_then(20, "_")) for n in range(1, 8)
            ],
        },
    ),
    case(
        "BinomeshNodeDown",
        "critical",
        [of("node-5", instance=instance("node-5"))],
        "Node node-5 cannot be read.",
        f"The metrics of node-5 in {CLUSTER} at {instance('node-5')} do not answer."
        " Its process, its host or the way there is down.",
        ("up", {"node": "node-5"}, lambda up: up == 0),
        after="1m",
        part=WHOLE,
        not_when={"it answers": [("up", {"node": "node-5"}, always(1))]},
    ),
    case(
        "BinomeshNodeNotReady",
        "critical",
        [of("node-3")],
        "Node node-3 is not ready.",
        f"Node node-3 runs, and is not a settled member of the overlay of {CLUSTER}.",
        20,
        after="1m",
        changes=[("binomesh_ready", {"node": "node-3"}, from_then(20, 0))],
        not_when={
            "it was unready for a moment": [
                ("binomesh_ready", {"node": "node-3"}, lambda at, former: int(not 20 <= at < 23))
            ],
        },
    ),
    case(
        "BinomeshClusterNotWhole",
        "warning",
        [{"cluster": CLUSTER}],
        f"Members of {CLUSTER} are missing.",
        f"A member of {CLUSTER} counts 1 as missing. These went without a goodbye, or are named by"
        " `expect` and are not there.",
        ("binomesh_lost_members", {}, lambda lost: lost > 0),
        after="2m",
        part=WHOLE,
        not_when={"nobody is missing": [("binomesh_lost_members", {}, always(0))]},
    ),
    case(
        "BinomeshClusterNotWhole",
        "warning",
        [{"cluster": CLUSTER}],
        f"Members of {CLUSTER} are missing.",
        f"A member of {CLUSTER} counts 2 as missing. These went without a goodbye, or are named by"
        " `expect` and are not there.",
        20,
        after="2m",
        changes=[("binomesh_inventory_absent", {"node": "node-0"}, from_then(20, 2))],
    ),
    case(
        "BinomeshTwoOverlays",
        "critical",
        [{"cluster": CLUSTER}],
        f"The cluster {CLUSTER} is in 2 parts.",
        f"The members of {CLUSTER} have 2 different epochs. Messages reach only the members of the"
        " sender's part.",
        two_epochs,
        after="2m",
        part=WHOLE,
        not_when={"some have none": [("binomesh_epoch", {}, lambda at, former: at % 2)]},
    ),
    case(
        "BinomeshNotQuiet",
        "warning",
        [{"cluster": CLUSTER}],
        f"The members of {CLUSTER} are numbered again and again.",
        f"A member of {CLUSTER} has seen 6 new numberings within 10m. Members come and go, or"
        " cannot agree.",
        60,
        after="5m",
        lasts="10m",
        changes=[("binomesh_renumbered_total", {"node": "node-2"}, counted(60, 6))],
        not_when={
            "there were fewer": [("binomesh_renumbered_total", {"node": "node-2"}, counted(60, 4))]
        },
    ),
    case(
        "BinomeshRanksVacant",
        "warning",
        [{"cluster": CLUSTER}],
        f"Ranks of {CLUSTER} stay vacant.",
        f"Ranks of {CLUSTER} that are counted and whose holders cannot be read, though the grace is"
        " over: 1.",
        20,
        after="3m",
        changes=[("binomesh_rank", {"node": "node-7"}, from_then(20, "_"))],
        not_when={
            "the others are numbered anew": [
                ("binomesh_rank", {"node": "node-7"}, from_then(20, "_")),
                ("binomesh_population", {}, from_then(23, 7)),
            ],
        },
    ),
    case(
        "BinomeshReceiptsUnconfirmed",
        "warning",
        [of("node-1")],
        "Messages of node-1 end unconfirmed.",
        "Of the receipts of node node-1, 6% do not say whether all members have the message.",
        20,
        after="5m",
        changes=[
            (
                "binomesh_receipts_total",
                {"node": "node-1", "outcome": "confirmed"},
                growing(20, 100, 94),
            ),
            (
                "binomesh_receipts_total",
                {"node": "node-1", "outcome": "unconfirmed"},
                # So many at once that the first sample is above the threshold.
                lambda at, former: 0 if at < 20 else 48 + 6 * (at - 20),
            ),
        ],
        not_when={
            "few do": [
                (
                    "binomesh_receipts_total",
                    {"node": "node-1", "outcome": "confirmed"},
                    growing(0, 0, 96),
                ),
                (
                    "binomesh_receipts_total",
                    {"node": "node-1", "outcome": "unconfirmed"},
                    growing(0, 0, 4),
                ),
            ],
            "there are none": [],
        },
    ),
    case(
        "BinomeshSlowPeer",
        "warning",
        [of("node-1", peer="node-6")],
        "Node node-6 is slow.",
        "Parts of messages that node-6 has not answered, or that node node-1 holds back for it: 1.",
        20,
        after="2m",
        # At every fourth scrape.
        changes=[slow("late", lambda at: 1 if at >= 20 and at % 4 == 0 else "_")],
        not_when={
            "it is late now and then": [
                slow("late", lambda at: 1 if at >= 20 and (at - 20) % 7 == 0 else "_")
            ],
            "nothing is late": [slow("late", lambda at: 0)],
            "copies are on their way": [slow("bytes", lambda at: 4096)],
        },
    ),
    case(
        "BinomeshSubscriberMissed",
        "warning",
        [of("node-3")],
        "A subscriber at node-3 loses messages.",
        "Messages for which subscribers at node node-3 had no room within 5m: 1.",
        60,
        lasts="5m",
        changes=[("binomesh_subscriber_missed_total", {"node": "node-3"}, counted(60, 1))],
    ),
    case(
        "BinomeshPushesFail",
        "warning",
        [of("node-2")],
        "A push of node-2 has not reached all.",
        "Files and streams that node node-2 has pushed within 15m and that not all members have: 1.",
        ("binomesh_pushes_total", {"node": "node-2", "outcome": "incomplete"}, lambda n: n > 0),
        lasts="15m",
        part=(0, None, 60),
        not_when={
            "all have it": [
                (
                    "binomesh_pushes_total",
                    {"node": "node-2", "outcome": "incomplete"},
                    always(0),
                ),
            ],
        },
    ),
    case(
        "BinomeshPushesFail",
        "warning",
        [of("node-4")],
        "A push of node-4 has not reached all.",
        "Files and streams that node node-4 has pushed within 15m and that not all members have: 1.",
        60,
        lasts="15m",
        changes=[
            ("binomesh_pushes_total", {"node": "node-4", "outcome": "failed"}, counted(60, 1))
        ],
    ),
    case(
        "BinomeshCertificateEnds",
        "warning",
        [of("node-4", document="certificate")],
        "The certificate of node-4 ends.",
        "The certificate of node node-4 ends in 14.0 days. After that its links are cut.",
        21,
        after="1m",
        changes=[
            (LEFT, {}, always(FOURTEEN_DAYS + 86_400)),
            (LEFT, {"node": "node-4", "document": "certificate"}, always(FOURTEEN_DAYS + 20 * 15)),
            issued(90 * 86_400),
        ],
        not_when={"it is renewed": [(LEFT, {}, always(FOURTEEN_DAYS + 86_400)), issued(90 * 86_400)]},
    ),
    # For a week, so that less than a third of it is left from the second minute on.
    case(
        "BinomeshCertificateEnds",
        "warning",
        [of("node-4", document="certificate")],
        "The certificate of node-4 ends.",
        "The certificate of node node-4 ends in 2.3 days. After that its links are cut.",
        21,
        after="1m",
        changes=[
            (LEFT, {}, always(FOURTEEN_DAYS)),
            (LEFT, {"node": "node-4", "document": "certificate"}, always(0.33 * 7 * 86_400 + 20 * 15)),
            issued(30 * 86_400),
            issued(7 * 86_400, {"node": "node-4", "document": "certificate"}),
        ],
        not_when={
            "more than a third is left": [
                (LEFT, {}, always(FOURTEEN_DAYS - 86_400)),
                issued(30 * 86_400),
            ],
        },
    ),
    case(
        "BinomeshRevocationListOverdue",
        "warning",
        [of("node-4", document="revocation_list")],
        "The revocation list of node-4 is overdue.",
        "The next revocation list of node node-4 was due, and the node does not have it."
        " The former list goes on revoking.",
        21,
        after="1m",
        changes=[
            (
                LEFT,
                {"node": "node-4", "document": "certificate"},
                always(20 * 15),
                {"document": "revocation_list"},
            ),
        ],
        not_when={
            "there is another one": [
                (
                    LEFT,
                    {"node": "node-4", "document": "certificate"},
                    from_then(23, 90 * 86_400),
                    {"document": "revocation_list"},
                ),
            ],
        },
    ),
    case(
        "BinomeshReloadFailed",
        "warning",
        [of("node-4")],
        "Node node-4 could not reload its credentials.",
        "Node node-4 was told to read its credentials again and has refused them."
        " It goes on with the former ones.",
        ("binomesh_credential_reloads_total", {"outcome": "failed"}, lambda n: n > 0),
        lasts="30m",
        part=(0, None, 130),
        not_when={
            "it took them": [
                (
                    "binomesh_credential_reloads_total",
                    {"node": "node-4", "outcome": "failed"},
                    always(0),
                ),
                (
                    "binomesh_credential_reloads_total",
                    {"node": "node-4", "outcome": "ok"},
                    from_then(20, 1),
                ),
            ],
        },
    ),
    case(
        "BinomeshSocketBuffersSmall",
        "info",
        [of("node-2")],
        "The socket of node-2 has small buffers.",
        "The kernel gave the socket of node node-2 3MiB where 4 MiB were asked for."
        " Bursts from many members are lost and sent again.",
        20,
        after="5m",
        changes=[(SEND_BUFFER, {"node": "node-2"}, from_then(20, 3 << 20))],
        not_when={"it got all": [(SEND_BUFFER, {"node": "node-2"}, always(4 << 20))]},
    ),
    case(
        "BinomeshHandshakesRefused",
        "warning",
        [of("node-0", reason="unknown_authority")],
        "Handshakes with node-0 are refused, unknown_authority.",
        "Within 10m, 4 handshakes of node node-0 ended for the reason unknown_authority. Somebody"
        " who may not join tries to, or a member has wrong credentials.",
        60,
        lasts="10m",
        changes=[(REFUSED, STRANGER, counted(60, 4))],
        not_when={
            "there were fewer": [(REFUSED, STRANGER, counted(60, 2))],
            "a peer is away": [(REFUSED, {"reason": "timed_out"}, counted(60, 50))],
        },
    ),
    case(
        "BinomeshQueueNearBound",
        "warning",
        [of("node-1", queue="duties")],
        "A queue of node-1 is nearly full.",
        "The queue duties of node node-1 is at 85% of its bound. At the bound more messages are"
        " refused.",
        20,
        after="2m",
        changes=[("binomesh_queue_bytes", DUTIES, from_then(20, 0.85 * (64 << 20)))],
        not_when={
            "it has room": [("binomesh_queue_bytes", DUTIES, from_then(20, 0.75 * (64 << 20)))]
        },
    ),
    case(
        "BinomeshVersionMix",
        "info",
        [{"cluster": CLUSTER}],
        f"The nodes of {CLUSTER} have 2 versions.",
        f"The nodes of {CLUSTER} run 2 versions of Binomesh for longer than an upgrade takes.",
        20,
        after="1h",
        part=(2, 8, 300),
        changes=[
            (
                "binomesh_build_info",
                {"node": "node-3"},
                lambda at, former: 1 if at >= 20 else "_",
                {"version": "0.0.9"},
            ),
            ("binomesh_build_info", {"node": "node-3", "version": "0.1.0"}, from_then(20, "_")),
        ],
        not_when={"all have one": []},
    ),
    case(
        "BinomeshLogLinesLost",
        "info",
        [of("node-6")],
        "Log lines of node-6 are lost.",
        "Lines of its log that node node-6 could not write within 15m: 1.",
        80,
        lasts="15m",
        part=(2, 8, 160),
        changes=[("binomesh_log_lines_lost_total", {"node": "node-6"}, counted(80, 1))],
    ),
]
