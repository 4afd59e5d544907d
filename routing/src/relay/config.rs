//! Bounds and times of a relay.

use std::time::Duration;

use binomesh_overlay::Planted;

use crate::router::Chosen;
use crate::shape::Fanout;

/// The bounds and times of a relay. Every member of a cluster has the same
/// `window`; the others may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Config {
    /// Who chooses the next hop of what is routed. One over the sibling tree has
    /// links of that tree held as well.
    pub router: Chosen,
    /// How many children a full node of the sibling tree has, for the router. All
    /// members should have the same: it takes both ends to hold a link.
    pub fanout: Fanout,
    /// How many messages an origin has open at most, from the oldest on, and how far a
    /// receiver's duplicate window reaches. Full: [`super::PublishError::WindowFull`];
    /// a packet beyond it is refused. A guess: sixteen messages in each packet that may
    /// be open.
    pub window: u64,
    /// How many packets an origin has open at most. Full:
    /// [`super::PublishError::WindowFull`]. A guess: so many origins can do so at once
    /// before duties run out, but of long packets fewer: `max_duty_bytes`.
    pub max_open: usize,
    /// The largest payload; a larger one is an error or is refused.
    pub payload_max: usize,
    /// How long to wait for custody at first and at least.
    pub custody_floor: Duration,
    /// The longest wait for custody, whatever the back-off. A guess.
    pub custody_cap: Duration,
    /// How long custody of a payload up to `short_payload` is delayed, for done may come
    /// first and makes it superfluous. 0: it is not. A guess: longer than most broadcasts
    /// take, and much shorter than `custody_floor`.
    pub custody_delay: Duration,
    /// What a link brings at least, in bytes per second: the wait for custody of a copy
    /// is longer by what it takes, and what was sent to that peer before it. A guess: a
    /// quarter of 200 Mbit/s, since copies to several peers leave at once. A part that
    /// is given away too early is sent twice, with all that is behind it. 0: what a
    /// copy takes is not counted.
    pub custody_bytes_per_second: u32,
    /// How many bytes of copies are on their way to one peer at most, until it answers;
    /// one always fits. Full: further ones wait in the relay. A guess: what a link of
    /// 1 Gbit/s brings in a sixtieth of a second.
    pub peer_window: u64,
    /// How many copies of scheduled broadcasts are on the way at most, to all peers
    /// together, until they are answered; of peers that are late none is counted. Full:
    /// further ones wait in the relay. Measured: fewer leave uplinks idle while answers are
    /// behind what their senders send; many more fill the queues in front of the uplinks,
    /// and every hop takes longer.
    pub uplink_copies: usize,
    /// How long after custody a missing done is asked for first; doubles up to
    /// eight times that. A guess: longer than an ordinary broadcast takes.
    pub inquire_after: Duration,
    /// A timer that is later than this says that this process was paused; the
    /// wait begins anew once, since the delay was not the peer's.
    pub pause: Duration,
    /// Re-delegations per hundred sends. Used up: wait and retry.
    pub redelegation_percent: u32,
    /// Re-delegations beyond that share, in a burst.
    pub redelegation_burst: u32,
    /// How many next hops a routed part tries before it gives up. A guess.
    pub route_tries: usize,
    /// How far along a transit list a hop that found no way is replaced by
    /// another; further on its answer goes back as it is. The transit list names
    /// one path, not all that was searched, so without this a rank behind
    /// dead neighbours would cost every path of the graph; so it costs
    /// `route_tries` to this power. A guess.
    pub route_backtrack: usize,
    /// Further tries for what a hop had no way to, per hundred sends; one more with
    /// each re-issue of an own message. Used up: no route, and the origin tries
    /// again later. As many parts behind a rank that nobody finds are handed to the
    /// next one. A guess.
    pub search_percent: u32,
    /// How many of these may come at once. A guess.
    pub search_burst: u32,
    /// How many hops a routed part may take beyond the shortest path from where it
    /// began; then it has no route. Without this the search for a member that
    /// nobody knows would visit everybody. A guess.
    pub route_detours: u32,
    /// The longest payload that is short: what is said of one may come `custody_delay` late.
    pub short_payload: usize,
    /// How many duties for others may be open. Full: `Refused(Busy)`, and the
    /// delegator hands out the part itself; what is for this node alone is taken
    /// all the same.
    pub max_duties: usize,
    /// How many bytes of payloads, names and signatures they may hold; full as above.
    pub max_duty_bytes: usize,
    /// How many parts a node has handed to others, own messages not counted, until
    /// it takes no further duty; full as above.
    pub max_delegations: usize,
    /// How many of one duty. Full: its late parts are not divided any more but
    /// asked for again.
    pub max_duty_delegations: usize,
    /// How many finished duties are remembered, without payload, to answer
    /// repeated questions. Full: the oldest is forgotten and would be served
    /// again, without a second delivery.
    pub max_finished: usize,
    /// How many delegators wait for one duty. Full: `Refused(Busy)`.
    pub max_waiters: usize,
    /// How many exceptions a duty names before they are summarised; at most
    /// [`crate::packet::Message::MAX_EXCEPTIONS`].
    pub max_exceptions: usize,
    /// How many bytes of payloads and signatures own open messages may hold. Full:
    /// [`super::PublishError::MemoryFull`].
    pub max_message_bytes: usize,
    /// How many own packets that are to be kept for members that are away may be open.
    /// Full: [`super::PublishError::KeptFull`]. A guess: two for each that may be open
    /// otherwise.
    pub max_kept: usize,
    /// How many bytes of payloads and signatures they may hold; full as above.
    pub max_kept_bytes: usize,
    /// How many packets of an unknown epoch are held. Full: refused at once.
    pub max_held: usize,
    /// How many bytes of payloads, names and signatures they may hold; full as above.
    pub max_held_bytes: usize,
    /// How long a packet of an unknown epoch is held: an epoch takes about a
    /// depth of hops to get everywhere. A guess.
    pub hold: Duration,
    /// For how many origins a duplicate window is kept; at least twice
    /// `roster_max`, and more than `max_duties`. Full: of those that are in neither
    /// roster and have no open duty the least recently used gives way, else
    /// `Refused(Busy)`. Above `roster_max` all count as in neither, so that new
    /// origins are always let in; a copy of a forgotten one's message that comes
    /// again would be delivered again.
    pub max_origins: usize,
    /// For how many peers a verdict and a pace are remembered. Full: verdicts
    /// act once, paces stay at the floor.
    pub max_peers: usize,
    /// The largest population that a roster is gathered for. Above it receipts
    /// name ranks only and sending by id fails.
    pub roster_max: u32,
    /// How long to wait for a roster answer at first; doubles.
    pub roster_first: Duration,
    /// The longest wait for a roster answer; a quarter of it until each finger was asked.
    pub roster_cap: Duration,
    /// How long own broadcasts wait at most for a complete roster, over all epochs
    /// that pass meanwhile. A guess: some dozen silent members in a row. Longer
    /// would help nobody: what is not known by then nobody tells any more.
    pub roster_wait: Duration,
    /// How long a verdict has to stand until messages end without its peer. A
    /// guess: well above the silence of a restart, well below the grace in which
    /// a dead member's rank stays vacant.
    pub down_patience: Duration,
    /// The same while own messages find no room; at most `down_patience`. A guess: above
    /// the silence of a quick restart.
    pub down_pressed: Duration,
    /// How long until the origin first issues again what is left; doubles.
    pub reissue_first: Duration,
    /// The longest wait between two re-issues.
    pub reissue_cap: Duration,
    /// A bug that tests plant.
    pub planted: Planted,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            router: Chosen::default(),
            fanout: Fanout::TWO,
            window: 1024,
            max_open: 64,
            payload_max: 16 << 20,
            custody_floor: Duration::from_millis(25),
            custody_cap: Duration::from_secs(2),
            custody_delay: Duration::from_millis(5),
            custody_bytes_per_second: 6 << 20,
            peer_window: 2 << 20,
            uplink_copies: 8,
            inquire_after: Duration::from_millis(500),
            pause: Duration::from_millis(100),
            redelegation_percent: 10,
            redelegation_burst: 8,
            route_tries: 4,
            route_backtrack: 2,
            search_percent: 5,
            search_burst: 16,
            route_detours: 6,
            short_payload: 4096,
            max_duties: 4096,
            max_duty_bytes: 64 << 20,
            max_delegations: 65_536,
            max_duty_delegations: 1024,
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
            roster_first: Duration::from_millis(50),
            roster_cap: Duration::from_secs(1),
            roster_wait: Duration::from_secs(3),
            down_patience: Duration::from_secs(5),
            down_pressed: Duration::from_secs(1),
            reissue_first: Duration::from_millis(100),
            reissue_cap: Duration::from_secs(5),
            planted: Planted::default(),
        }
    }
}
