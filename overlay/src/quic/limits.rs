//! Every bound and window of the transport.

use std::time::Duration;

/// The longest maintenance body; longer ones close the connection. 64 KiB.
pub(super) const MAINTENANCE_FRAME: usize = 64 << 10;
/// The longest control body; longer ones close the connection. 64 KiB.
pub(super) const CONTROL_FRAME: usize = 64 << 10;
/// Streams of their own that one link writes at once; further packets wait.
/// Two, with the persistent packet stream, can fill three quarters of the
/// connection window: the last quarter is left to maintenance and control.
pub(super) const LARGE_STREAMS: usize = 2;
/// Bytes of maintenance frames that wait to be read; they do not wait behind other frames.
/// When full, as [`Limits::event_bytes`]. Guess: sixteen of the longest, thousands of the
/// usual ones; with less a burst of many peers holds up their links.
pub(super) const MAINTENANCE_EVENT_BYTES: usize = 1 << 20;
/// Bytes that incoming handshakes may have sent before they are answered; more are dropped.
/// Guess: 16 KiB for each of [`Limits::incoming`], above any first flight; with less the
/// dials of a crowd are repeated.
pub(super) const INCOMING_BYTES: u64 = 16 << 20;
/// UDP socket buffers asked of the kernel. 4 MiB: the kernel's default loses
/// thousands of packets per GiB.
pub(super) const SOCKET_BUFFER: usize = 4 << 20;
/// Unread bytes per stream. 512 KiB: as one long packet is read, the next is on
/// its way.
pub(super) const STREAM_WINDOW: u32 = 512 << 10;
/// Unread bytes per connection. 2 MiB: see [`LARGE_STREAMS`]; quinn's unlimited
/// default let one peer take 130 MB.
pub(super) const CONNECTION_WINDOW: u32 = 2 << 20;
/// Unacknowledged bytes per connection. 2.5 MiB: above the receiver's window,
/// which is to govern, so that packets cannot use up the sender's first.
pub(super) const SEND_WINDOW: u64 = 5 << 19;
/// First congestion window. 256 KiB: the design, for a LAN.
pub(super) const INITIAL_WINDOW: u64 = 256 << 10;
/// How long a peer may wait with an acknowledgement for something that it can
/// travel with. Every wait is a timer and a wake-up on both sides of an idle
/// link, so it is short; 25 ms, QUIC's default, would be felt as well when a
/// short message is lost. Guess: longer than a receipt takes; if it is too short, idle links wake
/// their hosts once more for each message.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(5);
/// RTT assumed before the first sample. 50 ms: the design.
pub(super) const INITIAL_RTT: Duration = Duration::from_millis(50);

/// The bounds of a transport. Each says what happens when it is reached.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Links at once, draining ones too; of further peers they are refused as busy. Those of
    /// linked peers have room up to twice as many. Guess: a binomial graph of 2^20
    /// nodes has degree 39, a parent 16 children, the sibling tree a handful.
    pub links: usize,
    /// Connections to one peer at once whose TLS is done: the link, those that greet and those
    /// that drain. Another one is refused as busy. Guess: two dials that meet, as many that
    /// drain, and the same of a second process of its identity.
    pub peer_connections: usize,
    /// Peers that have a link, a claim, a dial or waiting frames; a send to one
    /// more fails. Guess: four times the links.
    pub peers: usize,
    /// Contacts known; old hearsay makes room. 8,192: the design's bound.
    pub contacts: usize,
    /// Contacts remembered as told, per stream; the longest unused is told
    /// again. Guess: more than a node introduces to one peer in an epoch.
    pub told_contacts: usize,
    /// Maintenance slots per peer; a further key is turned away. Guess.
    pub slots: usize,
    /// Control frames waiting per peer; more are turned away. Guess.
    pub control_frames: usize,
    /// Packets waiting per peer; more are turned away. Guess.
    pub packet_frames: usize,
    /// Bytes of packets waiting per peer; more are turned away. Guess: 4 MiB is
    /// two connection windows.
    pub queue_bytes: usize,
    /// The longest packet body; longer ones close the connection. 16 MiB.
    pub packet_frame: usize,
    /// Bodies above this get a stream of their own, so that shorter ones pass
    /// them. 320 KiB, a guess: beside longer ones, a stream more and its two tasks
    /// cost little.
    pub large_above: usize,
    /// Bytes of large bodies, and of all on streams of their own, that all links
    /// together may be assembling; further ones are not read until there is room.
    /// Guess: four links' share.
    pub assembly_bytes: usize,
    /// As many of them may be of one peer, so that one that begins bodies and does not end
    /// them leaves room for others. Guess: one of the longest.
    pub peer_assembly_bytes: usize,
    /// How long such a body may take from when it has room, whatever its length, ...
    /// Guess: a peer that is gone is given up before.
    pub assembly_timeout: Duration,
    /// ... and a second more for so many bytes. If others wait for room then and still when
    /// the former time has passed again, or at two later such looks, its connection is
    /// closed. Guess: half a megabit a second.
    pub assembly_rate: u32,
    /// Events waiting for the host, if all are short, and as many of maintenance; when full,
    /// readers wait and flow control holds their peers back. Guess.
    pub events: usize,
    /// Bytes of the frames among them, of all peers together; one always fits. Shorter ones
    /// than an equal share of it take that. When full, as above. Guess: two of the longest.
    pub event_bytes: usize,
    /// Unanswered handshakes in quinn; more are ignored. 1,024: the design.
    pub incoming: usize,
    /// Handshakes in progress in each direction. If there are more incoming ones, whoever has
    /// fewer than another address takes the oldest of that one, and others are refused; more
    /// outgoing ones wait. Guess.
    pub handshakes: usize,
    /// From the first packet to HelloAck. Guess: five probe timeouts of a lost
    /// flight at the initial RTT.
    pub handshake_timeout: Duration,
    /// The time limit for the holder of a link to answer when a second process of its
    /// identity greets. A silent holder is presumed dead. At most a quarter of
    /// `handshake_timeout`, for the greeter waits meanwhile. Guess: about a beat.
    pub answer_timeout: Duration,
    /// How long a link may take to drain. 5 s: the design's bound.
    pub drain_timeout: Duration,
    /// When a node stops, a peer of which no packet at all has come for this
    /// long is not waited for: one that lives acknowledges the goodbye within a
    /// round trip. Guess: a process that was not scheduled for a while passes.
    pub drain_silence: Duration,
    /// An unclaimed link with no frame for this long on both sides is closed.
    /// Guess: longer than a pause between an overlay's rounds.
    pub link_idle: Duration,
    /// Silence after which QUIC gives a peer up; only a backstop. 10 s.
    pub idle_timeout: Duration,
    /// Keep-alive period, hence how soon the restart of a peer to which nothing is
    /// sent is noticed. 1 s: several within the idle timeout.
    pub keep_alive: Duration,
    /// First pause between dials of a claimed peer. Guess.
    pub redial_first: Duration,
    /// The longest pause between dials. 5 s: the design's cap on probing.
    pub redial_max: Duration,
    /// Streams that a peer may have open; it waits to open more. Guess: one per
    /// class, and more large ones than the connection window holds.
    pub uni_streams: u32,
}

impl Limits {
    /// How long the assembly of so many bytes may take.
    pub(super) fn assembly_time(&self, bytes: usize) -> Duration {
        let seconds = bytes as u64 / u64::from(self.assembly_rate.max(1));
        let more = Duration::from_secs(seconds);
        self.assembly_timeout.saturating_add(more)
    }

    /// How long a process is waited for that may be gone.
    pub(super) fn answer_time(&self) -> Duration {
        self.answer_timeout.min(self.handshake_timeout / 4)
    }

    /// Whether a transport can keep to them; if not, why.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if u32::try_from(self.packet_frame).is_err() {
            return Err("frames are shorter than 4 GiB");
        }
        if self.events == 0 || self.handshakes == 0 || self.peer_connections == 0 {
            return Err("a bound is zero");
        }
        if self.link_idle < Duration::from_millis(2)
            || self.assembly_bytes == 0
            || self.peer_assembly_bytes == 0
            || self.assembly_timeout.is_zero()
            || self.assembly_rate == 0
            || self.event_bytes == 0
        {
            return Err("a bound is zero");
        }
        Ok(())
    }
}

impl Default for Limits {
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
        let limits = Limits::default();
        for (bytes, seconds) in [(0, 30), (64 << 10, 31), (16 << 20, 286)] {
            let time = limits.assembly_time(bytes);
            assert_eq!(time, Duration::from_secs(seconds), "{bytes}");
        }
        let endless = Limits {
            assembly_timeout: Duration::MAX,
            ..limits
        };
        assert_eq!(endless.assembly_time(1 << 20), Duration::MAX);
    }
}
