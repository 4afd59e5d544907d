//! Every bound and window of the transport.

use std::time::Duration;

/// The longest maintenance body; longer ones close the connection. 64 KiB.
pub(super) const MAINTENANCE_FRAME: usize = 64 << 10;
/// The longest control body; longer ones close the connection. 64 KiB.
pub(super) const CONTROL_FRAME: usize = 64 << 10;
/// How many streams for single large packets one link writes at once; further packets wait. A
/// packet counts until its last byte is given to QUIC. Two of these streams and the persistent
/// packet stream can fill three quarters of the connection window. As a rule the last quarter is
/// left to maintenance and control.
pub(super) const LARGE_STREAMS: usize = 2;
/// Bytes of maintenance frames that wait for the host; they do not wait behind other frames. When
/// full, readers wait as for [`TransportLimits::event_bytes`]. A guess: sixteen of the longest
/// frames, a thousand of the usual ones. With less a burst of many peers holds up their links.
pub(super) const MAINTENANCE_EVENT_BYTES: usize = 1 << 20;
/// Bytes that incoming handshakes may have sent before they are answered; more are dropped. A
/// guess: 16 KiB for each of [`TransportLimits::incoming`], more than the first packets of any
/// handshake. With less the dials of a crowd are repeated.
pub(super) const INCOMING_BYTES: u64 = 16 << 20;
/// The UDP socket buffers requested from the kernel. 4 MiB: the kernel's default loses thousands of
/// packets per GiB.
pub(super) const SOCKET_BUFFER: usize = 4 << 20;
/// Unread bytes per stream. 512 KiB: while one long packet is read, the next is on its way.
pub(super) const STREAM_WINDOW: u32 = 512 << 10;
/// Unread bytes per connection. 2 MiB: see [`LARGE_STREAMS`]; quinn's unlimited
/// default let one peer take 130 MB.
pub(super) const CONNECTION_WINDOW: u32 = 2 << 20;
/// The bytes of a connection that the sender keeps: not sent yet, not acknowledged, or acknowledged
/// only in part of a write. 2.5 MiB: more than the receiver's window by one write of
/// [`STREAM_WINDOW`], so that as a rule the receiver's window is the limit.
pub(super) const SEND_WINDOW: u64 = 5 << 19;
/// The first congestion window. 256 KiB, a guess for a LAN: what 1 Gbit/s carries in 2 ms. If it is
/// too large, the first burst of a link loses packets; if it is too small, long messages start
/// slowly.
pub(super) const INITIAL_WINDOW: u64 = 256 << 10;
/// How long a peer may delay an acknowledgement for other data to travel with. QUIC's default of 25
/// ms would also delay the repair of a lost short message. 5 ms, a guess: longer than a receipt
/// takes. If it is too short, the acknowledgement travels alone, and idle links wake their hosts
/// once more for each message.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(5);
/// The RTT that is assumed before the first sample. 50 ms, a guess: RFC 9002 suggests 333 ms, for
/// the Internet. In a cluster that would only delay the repair of a lost first packet.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(50);

/// The bounds of a transport. Each says what happens when it is reached.
#[derive(Debug, Clone)]
pub struct TransportLimits {
    /// Links at once, draining ones too. Further peers are refused as busy; peers that are linked
    /// already have room up to twice as many. A guess: in a binomial graph of 2^20 nodes a node has
    /// degree 39, a parent has 16 children more, and the sibling tree adds a few links.
    pub links: usize,
    /// Connections to one peer at once whose TLS is done: the link, connections that greet and
    /// connections that drain. Another one is refused as busy. A guess: two dials that meet, as
    /// many that drain, and the same number for a second process of the identity.
    pub peer_connections: usize,
    /// Peers that have a link, a claim, a dial or waiting frames; a send to one more fails. A
    /// guess: four times the links.
    pub peers: usize,
    /// Known contacts. For a new one the hearsay unused for longest makes room, then any other
    /// contact that is neither configured nor linked. 8,192, a guess: twice `peers`, so that the
    /// addresses of peers without a link stay known.
    pub contacts: usize,
    /// Contacts that the writer of a stream remembers as told. When there are more, the one unused
    /// for longest is forgotten, and is told again when it is next mentioned. A guess: more than a
    /// node introduces to one peer in an epoch. With fewer the same contacts travel again and
    /// again.
    pub told_contacts: usize,
    /// Maintenance slots per peer; a frame with a further key is turned away. A guess.
    pub slots: usize,
    /// Control frames that wait per peer; more are turned away. A guess.
    pub control_frames: usize,
    /// Packets that wait per peer; more are turned away. A guess.
    pub packet_frames: usize,
    /// Bytes of packets that wait per peer; more are turned away, but one packet always fits. A
    /// guess: 4 MiB is two connection windows.
    pub queue_bytes: usize,
    /// The longest packet body; longer ones close the connection. 16 MiB.
    pub packet_frame: usize,
    /// Packets with longer bodies get a stream of their own, so that shorter ones pass them. 320
    /// KiB, a guess: for a longer body, one more stream and its two tasks cost little.
    pub large_above: usize,
    /// Bytes of large bodies, and of all bodies on streams of their own, that all links together
    /// may be assembling. Further ones are not read until there is room. A guess: the share of four
    /// links.
    pub assembly_bytes: usize,
    /// How many of these bytes one peer may use. A peer that begins bodies and never ends them thus
    /// leaves room for other peers. A guess: one of the longest bodies.
    pub peer_assembly_bytes: usize,
    /// The time that each such body has in any case, from the moment when it has room; its length
    /// adds to that, see `assembly_rate`. A guess: a peer that is gone is given up before that.
    pub assembly_timeout: Duration,
    /// Each such number of bytes adds a second to the time of a body. When that time is over, and
    /// every `assembly_timeout` from then on, the node looks whether others wait for room. If they
    /// do at two looks in a row, the connection is closed. A guess: half a megabit a second.
    pub assembly_rate: u32,
    /// Events that wait for the host, if all are short, and as many of maintenance. When full,
    /// readers wait and flow control holds their peers back. A guess.
    pub events: usize,
    /// Bytes of the frames among the events that are not maintenance, of all peers together; one
    /// frame always fits. A frame takes at least this number divided by `events`. When full,
    /// readers wait as for `events`. A guess: two of the longest frames.
    pub event_bytes: usize,
    /// Unanswered handshakes in quinn; more are ignored. 1,024, a guess: as many as `links`.
    pub incoming: usize,
    /// Handshakes in progress in each direction. Of more incoming ones some are refused: an address
    /// takes the place of another address's oldest one if that address has the most, and at least
    /// two more. More outgoing ones wait. A guess.
    pub handshakes: usize,
    /// The longest time from the first packet to HelloAck. A guess: five probe timeouts of lost
    /// first packets at the initial RTT.
    pub handshake_timeout: Duration,
    /// How long the holder of a link may take to answer when a second process of its identity
    /// greets. A holder that stays silent is presumed dead. At most a quarter of
    /// `handshake_timeout` is used, as the greeter waits meanwhile. A guess: about a beat.
    pub answer_timeout: Duration,
    /// How long a link may take to drain. 5 s, a guess: as long as a handshake may take. If it is
    /// shorter, a slow peer loses the last frames of a link.
    pub drain_timeout: Duration,
    /// A node that stops does not wait for a peer from which no packet has come for this long: a
    /// live peer acknowledges the goodbye within a round trip. A guess: longer than a process is
    /// usually kept from running.
    pub drain_silence: Duration,
    /// An unclaimed link with no frame for this long on both sides is closed. A guess: longer than
    /// a pause between an overlay's rounds. If it is shorter, links are closed and dialled again.
    pub link_idle: Duration,
    /// The silence after which QUIC gives a peer up; only a backstop. 10 s.
    pub idle_timeout: Duration,
    /// The keep-alive period. It decides how soon a restart is noticed of a peer to which nothing
    /// is sent. 1 s: several within the idle timeout.
    pub keep_alive: Duration,
    /// The first pause between dials of a claimed peer. A guess.
    pub redial_first: Duration,
    /// The longest pause between dials. 5 s, as between probes: see *Timers* in `docs/protocol.md`.
    pub redial_max: Duration,
    /// Streams that a peer may have open; it waits to open more. A guess: one per class, and more
    /// large ones than the connection window holds.
    pub uni_streams: u32,
}

impl TransportLimits {
    /// How long the assembly of `bytes` bytes may take before the node looks whether others wait.
    pub(super) fn assembly_time(&self, bytes: usize) -> Duration {
        let seconds = bytes as u64 / u64::from(self.assembly_rate.max(1));
        let more = Duration::from_secs(seconds);
        self.assembly_timeout.saturating_add(more)
    }

    /// How long to wait for the answer of a process that may be gone.
    pub(super) fn answer_time(&self) -> Duration {
        self.answer_timeout.min(self.handshake_timeout / 4)
    }

    /// Whether a transport can work within these bounds; if not, why.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if u32::try_from(self.packet_frame).is_err() {
            return Err("`packet_frame` is 4 GiB or more; give less");
        }
        if self.events == 0 || self.handshakes == 0 || self.peer_connections == 0 {
            return Err("a bound is zero, or `link_idle` is below 2 ms");
        }
        if self.link_idle < Duration::from_millis(2)
            || self.assembly_bytes == 0
            || self.peer_assembly_bytes == 0
            || self.assembly_timeout.is_zero()
            || self.assembly_rate == 0
            || self.event_bytes == 0
        {
            return Err("a bound is zero, or `link_idle` is below 2 ms");
        }
        Ok(())
    }
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            links: 1024,
            peer_connections: 8,
            peers: 4096,
            contacts: 8192,
            told_contacts: 4096,
            slots: 1024,
            control_frames: 4096,
            packet_frames: 1024,
            queue_bytes: 4 << 20,
            packet_frame: 16 << 20,
            large_above: 320 << 10,
            assembly_bytes: 64 << 20,
            peer_assembly_bytes: 16 << 20,
            assembly_timeout: Duration::from_secs(30),
            assembly_rate: 64 << 10,
            events: 1024,
            event_bytes: 32 << 20,
            incoming: 1024,
            handshakes: 256,
            handshake_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_millis(600),
            drain_timeout: Duration::from_secs(5),
            drain_silence: Duration::from_secs(1),
            link_idle: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(1),
            redial_first: Duration::from_millis(100),
            redial_max: Duration::from_secs(5),
            uni_streams: 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_body_may_take_longer_to_assemble() {
        let limits = TransportLimits::default();
        for (bytes, seconds) in [(0, 30), (64 << 10, 31), (16 << 20, 286)] {
            let time = limits.assembly_time(bytes);
            assert_eq!(time, Duration::from_secs(seconds), "{bytes}");
        }
        let endless = TransportLimits {
            assembly_timeout: Duration::MAX,
            ..limits
        };
        assert_eq!(endless.assembly_time(1 << 20), Duration::MAX);
    }
}
