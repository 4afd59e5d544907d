//! Bounds and times of a relay.

use std::time::Duration;

use binomesh_overlay::Planted;

use crate::router::Chosen;
use crate::sibling_tree::Fanout;

/// The bounds and times of a relay. All members of a cluster need the same `window`, and should
/// have the same `fanout`. The other values may differ. The module [`crate::relay`] explains part,
/// duty, delegate and custody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// The router that chooses the next hop of a routed part, which goes hop by hop to its members.
    /// A router over the sibling tree makes this node hold the links of that tree, too.
    pub router: Chosen,
    /// How many children a full node of the sibling tree has, for the router. All members should
    /// have the same value, since the ends of a link must agree on it.
    pub fanout: Fanout,
    /// How many sequences an origin may use from its oldest open message on, kept ones apart, and
    /// how far a receiver's duplicate window reaches. Full: the origin returns
    /// [`super::PublishError::WindowFull`], and a receiver refuses a packet beyond it.
    /// Measured: with 1,024 sequences, short messages had a fifth less throughput (docs/speed.md).
    /// A larger window costs receivers memory, since each remembers up to `window` intervals of
    /// deliveries of each origin.
    pub window: u64,
    /// How many packets an origin may have open, kept ones apart. Full:
    /// [`super::PublishError::WindowFull`]. A guess: 64 origins with that many open packets exhaust
    /// `max_duties` of a node, and delegates then answer *busy*. With long packets fewer origins
    /// exhaust `max_duty_bytes`.
    pub max_open: usize,
    /// The longest payload of one message, in bytes. A longer one is an error at its origin, and is
    /// refused by receivers.
    pub payload_max: usize,
    /// How long a node delays the answer *custody* for a payload up to [`Config::SHORT_PAYLOAD`].
    /// The answer *done* may be ready first and makes custody superfluous. 0: custody is said at
    /// once. A guess: longer than most broadcasts take, and much shorter than
    /// [`Config::CUSTODY_FLOOR`]. If it is too short, most messages cost one more answer per part.
    pub custody_delay: Duration,
    /// The assumed least rate of a link, in bytes per second. The wait for custody of a copy
    /// includes the transfer of that copy, and of those sent to the same peer before it, at this
    /// rate. A guess: a quarter of 200 Mbit/s, since copies to several peers leave at once. If the
    /// rate is too high, the rest of a part is handed to other peers too early, and its members are
    /// sent the payload twice. 0: transfer times do not count, and `peer_window` does not apply.
    pub custody_bytes_per_second: u32,
    /// How many bytes of copies may be on their way to one peer, until it answers. One copy always
    /// fits. Full: further copies wait in the relay, except copies of scheduled broadcasts and
    /// copies that are sent again. A guess: a link of 1 Gbit/s transfers as much in a sixtieth of a
    /// second. A smaller window leaves a fast link idle until answers come.
    pub peer_window: u64,
    /// How many copies of scheduled broadcasts (strategy `circulant`) may be on their way to all
    /// peers together, until they are answered. Copies to late peers do not count. Full: further
    /// copies wait in the relay. Measured: fewer copies leave the uplink idle while answers wait
    /// behind the copies of their senders. Many more copies fill the queues in front of the
    /// uplinks, and every hop takes longer.
    pub uplink_copies: usize,
    /// A timer that fires later than its time by more than this shows a pause of this process. The
    /// wait for the peer's answer then begins again once, since the peer did not cause the delay.
    pub pause: Duration,
    /// How many further tries a hundred sent copies allow for routed parts that a hop could not
    /// bring further. Copies of routed parts do not count as sent. Each re-issue of an own message
    /// allows one more. Used up: the part ends with *no route*, and its origin issues it again
    /// later. An equal budget bounds how often the head of a part is excepted as not found and the
    /// rest handed to the next rank. A guess: if it is too small, reachable members wait for a
    /// re-issue.
    pub search_percent: u32,
    /// How many of these tries may be saved up, and so happen at once. A guess.
    pub search_burst: u32,
    /// How many duties for others may be open. Full: a part is refused as *busy*, and its delegator
    /// hands it out itself. A part for this node alone is always taken.
    pub max_duties: usize,
    /// How many bytes of payloads, names and signatures open duties for others may hold. Full: a
    /// part is refused as with `max_duties`.
    pub max_duty_bytes: usize,
    /// How many parts the open duties for others may have handed on. From this number on a new part
    /// is refused as with `max_duties`; open duties may still hand on more.
    pub max_delegations: usize,
    /// How many finished duties are remembered, without payload, to answer repeated questions.
    /// Full: the oldest is forgotten. A copy for it would be served again, without a second
    /// delivery.
    pub max_finished: usize,
    /// How many delegators may wait for one duty. Full: a further one is refused as *busy*.
    pub max_waiters: usize,
    /// How many exceptions a duty lists before it merges neighbouring ones; at most
    /// [`crate::packet::Message::MAX_EXCEPTIONS`].
    pub max_exceptions: usize,
    /// How many bytes of payloads and signatures open own messages may hold. Full:
    /// [`super::PublishError::MemoryFull`].
    pub max_message_bytes: usize,
    /// How many open own packets may have been accepted with [`super::Due::Kept`]. Full:
    /// [`super::PublishError::KeptFull`]. A guess: twice `max_open`.
    pub max_kept: usize,
    /// How many bytes of payloads and signatures kept packets may hold. Full: a message is refused
    /// as with `max_kept`.
    pub max_kept_bytes: usize,
    /// How many packets of an unknown epoch may be held. Full: a further one is refused at once.
    pub max_held: usize,
    /// How many bytes of payloads, names and signatures held packets may hold. Full: a packet is
    /// refused as with `max_held`.
    pub max_held_bytes: usize,
    /// How long a packet of an unknown epoch is held. A guess: a new epoch needs about as many hops
    /// as its tree is deep to reach every member. If this is too short, packets that overtake their
    /// epoch are refused.
    pub hold: Duration,
    /// For how many origins a duplicate window is kept; at least twice `roster_max`, and more than
    /// `max_duties`. Full: of the origins without an open duty here that are in neither roster, of
    /// the newest epoch and the one before, the least recently used one gives way. An incomplete
    /// roster counts as if it had all origins. If no origin can give way, the copy is refused as
    /// *full*. Above `roster_max` every origin counts as in neither roster, so that new origins are
    /// let in. A repeated copy of a forgotten origin's message would then be delivered again.
    pub max_origins: usize,
    /// For how many peers each of these is remembered: verdict, departure, silence, pace, and
    /// window of copies. Full: a further verdict acts once, the wait for a further peer stays at
    /// [`Config::CUSTODY_FLOOR`], and a further peer has no window.
    pub max_peers: usize,
    /// The largest population for which a roster is gathered. In a larger one receipts may name
    /// ranks only, and sending by id may fail.
    pub roster_max: u32,
    /// How long own broadcasts wait at most for a complete roster, over all epochs that pass
    /// meanwhile. A guess: enough to get past a dozen silent members in a row. A longer wait would
    /// not help, since names that are unknown by then are not told any more.
    pub roster_wait: Duration,
    /// How long a verdict that a peer is down has to stand before messages end without this peer. A
    /// guess: well above the silence of a restart, and well below the grace in which a dead
    /// member's rank stays vacant.
    pub down_patience: Duration,
    /// As `down_patience`, but while own messages find no room, and for messages with
    /// [`super::Due::Soon`]; at most `down_patience`. A guess: above the silence of a quick
    /// restart. If it is shorter, a member that restarts is given up.
    pub down_pressed: Duration,
    /// A bug that a test plants, to check that it is found.
    pub planted: Planted,
}

/// Bounds and times that are the same for every relay.
impl Config {
    /// The shortest wait for custody, with which each peer begins.
    pub const CUSTODY_FLOOR: Duration = Duration::from_millis(25);
    /// The longest wait for custody after all doublings, apart from the time that the copy takes. A
    /// guess: a longer wait finds a lost copy later, a shorter one asks slow peers more often.
    pub const CUSTODY_CAP: Duration = Duration::from_secs(2);
    /// How long after custody a delegator first asks for a missing done. The wait doubles, up to
    /// eight times this. A guess: longer than an ordinary broadcast takes, since a shorter wait
    /// asks about parts that are still on their way.
    pub const INQUIRE_AFTER: Duration = Duration::from_millis(500);
    /// How many re-delegations, which hand a late part to another peer, a hundred sent copies
    /// allow. Used up: the delegator waits and asks again.
    pub const REDELEGATION_PERCENT: u32 = 10;
    /// How many re-delegations may be saved up, and so happen at once.
    pub const REDELEGATION_BURST: u32 = 8;
    /// How many next hops a node tries for a routed part before it gives up. A guess: fewer tries
    /// may miss the only way that is left, more tries multiply the copies of a search.
    pub const ROUTE_TRIES: usize = 4;
    /// At how many visited ranks a node no longer tries another hop when a part comes back without
    /// a route. From there on the answer goes back as it is. A transit list names one path, not all
    /// searched ranks. So without this bound the search for a rank behind dead neighbours would
    /// cost every path of the graph. With it, the search costs [`Config::ROUTE_TRIES`] to this
    /// power. A guess.
    pub const ROUTE_BACKTRACK: usize = 2;
    /// How many hops a routed part may take beyond the shortest path from the node that first
    /// routed it. Then it ends with *no route*. Without this bound the search for an unknown member
    /// would visit all nodes. A guess: if it is too small, a member behind many dead hops is not
    /// found.
    pub const ROUTE_DETOURS: u32 = 6;
    /// The longest payload that counts as short: its custody may be delayed by `custody_delay`.
    pub const SHORT_PAYLOAD: usize = 4096;
    /// How many parts of one duty may be handed on. Full: its late parts are not divided further,
    /// and their delegates are asked again.
    pub const MAX_DUTY_DELEGATIONS: usize = 1024;
    /// The first wait for a roster answer. It doubles with each attempt.
    pub const ROSTER_FIRST: Duration = Duration::from_millis(50);
    /// The longest wait for a roster answer; a quarter of this until each finger (neighbour in the
    /// binomial graph) was asked.
    pub const ROSTER_CAP: Duration = Duration::from_secs(1);
    /// The first wait of the origin before it issues a message again. It doubles with each round.
    pub const REISSUE_FIRST: Duration = Duration::from_millis(100);
    /// The longest wait between two re-issues.
    pub const REISSUE_CAP: Duration = Duration::from_secs(5);
}

impl Default for Config {
    fn default() -> Self {
        Self {
            router: Chosen::default(),
            fanout: Fanout::TWO,
            window: 4096,
            max_open: 64,
            payload_max: 16 << 20,
            custody_delay: Duration::from_millis(5),
            custody_bytes_per_second: 6 << 20,
            peer_window: 2 << 20,
            uplink_copies: 8,
            pause: Duration::from_millis(100),
            search_percent: 5,
            search_burst: 16,
            max_duties: 4096,
            max_duty_bytes: 64 << 20,
            max_delegations: 65_536,
            max_finished: 16384,
            max_waiters: 8,
            max_exceptions: 64,
            max_message_bytes: 64 << 20,
            max_kept: 128,
            max_kept_bytes: 16 << 20,
            max_held: 64,
            max_held_bytes: 32 << 20,
            hold: Duration::from_millis(300),
            max_origins: 8192,
            max_peers: 4096,
            roster_max: 4096,
            roster_wait: Duration::from_secs(3),
            down_patience: Duration::from_secs(5),
            down_pressed: Duration::from_secs(1),
            planted: Planted::default(),
        }
    }
}
