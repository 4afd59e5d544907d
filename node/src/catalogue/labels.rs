//! The values of labels, each with its meaning. A test compares the labels of a live node with
//! these values.

/// A value and its meaning.
type Value = (&'static str, &'static str);

/// The kinds of messages of the overlay: see [`Message::name`](binomesh_overlay::Message::name).
pub(super) const MESSAGES: [Value; 27] = [
    ("attach", "a child asks for its place in the tree"),
    (
        "lead",
        "a parent tells its children of the root and the epoch",
    ),
    ("digest", "a parent and a child compare what they know"),
    ("ask-lead", "a child asks for what its parent told"),
    ("redirect", "a full parent names another"),
    ("refuse", "a parent refuses a child"),
    ("detach", "a child goes to another parent"),
    ("leave", "a parent leaves its children"),
    ("probe", "an island looks for another"),
    ("together", "two islands find that they are one"),
    ("offer", "a root offers another to become its child"),
    ("ring", "who follows whom in the ring"),
    ("size", "members below a node are counted"),
    ("place", "ranks are handed out"),
    ("in-force", "an epoch holds from now on"),
    ("up", "a finger on the level above is found"),
    ("down", "a finger is passed on"),
    ("confirm", "a node asks whether a finger is right"),
    ("confirmed", "the answer, or where to ask next"),
    ("beat", "a sign of life"),
    (
        "ping",
        "a question whether somebody is alive, asked of it or through others",
    ),
    ("pong", "the answer"),
    ("rumours", "who is down, doubted, or up again"),
    ("goodbye", "a member leaves"),
    (
        "relayed",
        "a message that others pass on, for want of a link",
    ),
    ("clique", "members of one list find each other"),
    ("spanning", "neighbours in a graph agree on a tree"),
];

pub(super) const SENDS_FAILED: [Value; 7] = [
    ("closed", "the transport has ended"),
    ("encoding", "the message cannot be encoded"),
    ("full", "the queue to its peer is full"),
    ("to-self", "it was for this node"),
    ("too-long", "it is longer than its class allows"),
    ("too-many-peers", "there is no room for another peer"),
    ("unknown-peer", "no address of its peer is known"),
];

/// Why this node refuses a message of another node.
pub(super) const UNPROVEN: [Value; 6] = [
    ("version", "of another version"),
    ("malformed", "it does not parse"),
    ("unsigned", "its origin has not signed it"),
    (
        "signature",
        "its signature, or the certificate with it, is not good",
    ),
    (
        "unjudged",
        "its certificate was not judged: it, or too many of that link, were in vain",
    ),
    (
        "goodbye",
        "a goodbye that is not signed, or whose signature was not judged or is not good",
    ),
];

/// The events of the relay: see [`RelayStats`](binomesh_routing::relay::RelayStats).
pub(super) const RELAY_EVENTS: [Value; 33] = [
    ("published", "messages of this node were accepted"),
    (
        "window_full",
        "attempts of this node to send that found too many messages open; the message waits and is tried again",
    ),
    (
        "kept_full",
        "messages of this node were not accepted, as too many are kept for members that are away",
    ),
    ("waited", "broadcasts waited for the names of all members"),
    (
        "waited_in_vain",
        "of these, some names did not come in time",
    ),
    ("delivered", "messages were delivered to local subscribers"),
    (
        "duplicates",
        "packets came of messages that had been delivered before",
    ),
    (
        "packets_sent",
        "packets were sent, own and others', repetitions included",
    ),
    (
        "held_back",
        "copies waited until others to the same peer had arrived",
    ),
    ("unpaced", "copies went out of turn, as too many waited"),
    ("retries", "packets were sent again, or asked after"),
    (
        "redelegations",
        "parts of a message were handed to somebody else, as their delegate was late",
    ),
    (
        "given_back",
        "parts taken from a late delegate were left to it after all, as it answered",
    ),
    (
        "bypassed",
        "parts were handed to somebody else, as their delegate is down",
    ),
    (
        "taken_over",
        "parts were handed out in the place of a delegate without room",
    ),
    (
        "over_budget",
        "late parts waited, as the budget for other ways was used up",
    ),
    (
        "over_search",
        "searches for a way ended, as their budget was used up",
    ),
    (
        "skipped",
        "ranks that nobody found were passed over for those behind them",
    ),
    ("reissues", "the rest of an own message was sent again"),
    ("receipts", "own messages got their receipt"),
    ("kept", "own messages were kept for members that are away"),
    (
        "excused",
        "members had left before an own broadcast that would have been theirs, too",
    ),
    (
        "streams_forgotten",
        "streams of own messages in order were forgotten for want of room",
    ),
    (
        "deliveries_forgotten",
        "ranges of remembered deliveries were dropped, as all origins together have too many",
    ),
    (
        "summarised",
        "exceptions of a receipt were folded into wider ones, as there were too many",
    ),
    (
        "refusals_checked",
        "members were asked whether they have refused what others say they have",
    ),
    (
        "hearsay_undone",
        "an origin took back what others had said of it",
    ),
    (
        "misnamed",
        "members refused messages for a rank that they never had",
    ),
    (
        "roster_doubted",
        "ranks were routed to whose holder by hearsay did not answer",
    ),
    (
        "roster_rejected",
        "answers of others about members contradicted what is known",
    ),
    (
        "floods_skipped",
        "copies by `flood` were not passed on for want of room",
    ),
    ("hellos", "neighbours in the sibling tree said hello"),
    (
        "hellos_rejected",
        "peers said hello that are no neighbours there",
    ),
];

/// Why the relay refuses a packet or a question: see
/// [`CustodyRefusal`](binomesh_routing::packet::CustodyRefusal).
pub(super) const RELAY_REFUSALS: [Value; 13] = [
    (
        "epoch-unknown",
        "of an epoch that this node has not heard of",
    ),
    ("epoch-gone", "of an epoch that is over"),
    (
        "not-that-rank",
        "for a rank that this node did not have in that epoch",
    ),
    ("busy", "this node answers for too much already"),
    ("draining", "this node is leaving"),
    ("too-large", "the payload is above its bound"),
    ("window", "the message is closed, or too far ahead"),
    ("malformed", "it contradicts itself or an earlier copy"),
    (
        "unknown",
        "a question about a part that this node does not have",
    ),
    ("not-that-peer", "for another member with this rank"),
    ("unsigned", "its origin has not signed it"),
    (
        "signature",
        "its signature, or the certificate with it, is not good here",
    ),
    ("full", "there is no room for messages of one more origin"),
];

pub(super) const RELAY_OPEN: [Value; 4] = [
    (
        "duties",
        "parts of others' messages that this node answers for",
    ),
    ("messages", "own messages, those that are kept included"),
    (
        "kept",
        "own messages that are kept for members that are away",
    ),
    ("packets", "packets that wait for their epoch"),
];

/// The queues of a node. The first four are those of a relay: see
/// [`Memory`](binomesh_routing::Memory).
pub(super) const QUEUES: [Value; 7] = [
    (
        "duties",
        "parts of others' messages that this node answers for",
    ),
    (
        "messages",
        "own messages without a receipt, those that are kept included",
    ),
    (
        "kept",
        "own messages without a receipt that are kept for members that are away",
    ),
    ("unknown-epoch", "packets that wait for their epoch"),
    ("waiting", "own messages that wait for their turn"),
    ("answers", "answers that are collected for receipts"),
    (
        "link",
        "frames for the peer for whom most wait; one always fits",
    ),
];

/// The worst that a receipt says of any member, from the best outcome to the worst; and `not_sent`,
/// if there is no receipt.
pub(super) const RECEIPTS: [Value; 6] = [
    (
        "confirmed",
        "all members have the message, and have confirmed as was asked",
    ),
    (
        "absent",
        "but for hosts of the inventory that were no members",
    ),
    (
        "unacknowledged",
        "all have it, and some have not confirmed as was asked",
    ),
    ("refused", "some have refused it"),
    (
        "unconfirmed",
        "of some it is not known whether they have it",
    ),
    (
        "not_sent",
        "no receipt: it has waited for its turn until its time was over, or in vain",
    ),
];

/// Why a receipt names a member: see [`Reason`](binomesh_routing::packet::Reason). The last four
/// are of members that have the message and have not confirmed as was asked.
pub(super) const EXCEPTIONS: [Value; 17] = [
    ("down", "a verdict says that it is down"),
    ("left", "it has said goodbye"),
    ("no-route", "no way to it was found"),
    (
        "epoch",
        "it has no epoch in common with this node, or the epoch is gone",
    ),
    ("deadline", "the time was over"),
    ("draining", "it is leaving"),
    ("too-large", "the payload is above its bound"),
    ("window", "the message is closed there, or too far ahead"),
    ("malformed", "it could make no sense of the message"),
    (
        "summarised",
        "there were more exceptions than a report holds",
    ),
    ("unsigned", "it takes nothing that is not signed"),
    (
        "signature",
        "the signature, or the certificate with it, is not good there",
    ),
    ("full", "it has no room for messages of one more origin"),
    ("no-subscriber", "nobody subscribes there"),
    ("missed", "its subscribers had no room"),
    ("no-answer", "it has not answered in time"),
    ("no-room", "there was no room here for its answer"),
];

pub(super) const PUSHES: [Value; 3] = [
    ("complete", "all members have it"),
    ("incomplete", "some members have not got it, or are absent"),
    ("failed", "it did not come to its end, and nobody has it"),
];

/// What a slow peer keeps waiting.
pub(super) const DUE: [Value; 3] = [
    ("late", "parts of messages that it has not answered in time"),
    ("held_back", "copies that wait until it has answered"),
    ("bytes", "bytes on their way to it"),
];

/// The store that was full, so that a message of a local user was refused.
pub(super) const FULL: [Value; 2] = [
    ("messages", "those that wait for their turn"),
    ("collections", "those that collect answers"),
];

pub(super) const UNCLAIMED: [Value; 2] = [
    ("late", "no subscriber came in time"),
    ("full", "there was no room to keep it"),
];

pub(super) const ORDER_EVENTS: [Value; 4] = [
    (
        "gap",
        "messages did not come in time, and are told as missing",
    ),
    ("late", "messages came after they had been told as missing"),
    (
        "crowded",
        "gaps were told before their time, as too many messages waited",
    ),
    ("forgotten", "streams were forgotten for want of room"),
];

/// The kinds of collective operations.
pub(super) const VERBS: [Value; 8] = [
    ("barrier", ""),
    ("agree", ""),
    ("all-gather", ""),
    ("gather", ""),
    ("scatter", ""),
    ("reduce", ""),
    ("all-reduce", ""),
    ("all-to-all", ""),
];

/// How a call of a collective operation ended.
pub(super) const OUTCOMES: [Value; 4] = [
    ("all", "all members have come"),
    ("missing", "it is decided, without some members"),
    ("undecided", "nothing was decided in time"),
    ("refused", "the call was refused"),
];

pub(super) const DOCUMENTS: [Value; 3] = [
    ("certificate", ""),
    ("authority", ""),
    ("revocation_list", ""),
];

pub(super) const RELOADS: [Value; 2] = [("ok", ""), ("failed", "the former ones stay")];

/// Why the metrics port with TLS refused a client.
pub(super) const METRICS_REFUSALS: [Value; 11] = [
    ("no_certificate", ""),
    (
        "not_a_monitor",
        "its certificate is of a node, or of something else",
    ),
    ("expired", ""),
    ("not_yet_valid", ""),
    ("revoked", ""),
    ("unknown_authority", ""),
    (
        "bad_certificate",
        "it cannot be read, or is not meant for this use",
    ),
    ("token", "the request had none, or another"),
    ("timed_out", "the handshake was begun and not ended"),
    ("tls", "TLS failed, such as of plain HTTP"),
    ("broken", "the connection broke"),
];
