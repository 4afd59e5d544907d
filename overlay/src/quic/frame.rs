//! Frames: the messages of the transport, and their form on a stream.
//!
//! ```text
//!  stream := tag:u8 frame*            tag = maintenance | control | packet | large
//!  frame  := version:u8 flags:u8 contacts_len:u16 body_len:u32 contacts body
//! ```
//!
//! Integers are big-endian. `contacts` is present when flag bit 0 is set: the postcard form of a
//! list of [`Contact`]s that the body introduces. A `large` stream carries one frame and ends. The
//! transport does not read the body.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::book::Contact;
use crate::PeerId;

/// The version of frames and of datagrams. A frame of another version is refused, and such a
/// datagram is dropped.
pub(super) const VERSION: u8 = 1;
/// Bytes before the contacts of a frame.
pub(super) const HEADER_LEN: usize = 8;
const FLAG_CONTACTS: u8 = 1;
/// The most contacts of one frame: those of a roster's part. For each contact the receiver takes
/// the lock of its contact book, for which its own senders wait.
const CONTACTS_MAX: usize = 256;

/// The slot of a maintenance message: of the messages with one key only the newest is sent, unless
/// it is merged with the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    /// The kind of message.
    pub kind: u8,
    /// The finger level; 0 for other messages.
    pub level: u8,
    /// The peer that the message is about, if messages about different peers must not replace each
    /// other.
    pub subject: Option<PeerId>,
}

/// The class of a frame, which decides how it is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Idempotent state: in each slot the newest frame takes over the place of the older one in the
    /// queue.
    Maintenance(SlotKey),
    /// Acknowledgements and credits, first in first out.
    Control,
    /// User packets, first in first out.
    Packet,
}

impl Class {
    /// The class without the slot.
    pub const fn plain(&self) -> PlainClass {
        match self {
            Self::Maintenance(_) => PlainClass::Maintenance,
            Self::Control => PlainClass::Control,
            Self::Packet => PlainClass::Packet,
        }
    }
}

/// The class of a frame as the receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlainClass {
    /// State of the overlay's own layers.
    Maintenance,
    /// Acknowledgements and credits.
    Control,
    /// User packets.
    Packet,
}

impl PlainClass {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Maintenance, Self::Control, Self::Packet];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Maintenance => 0,
            Self::Control => 1,
            Self::Packet => 2,
        }
    }

    /// The name used as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maintenance => "maintenance",
            Self::Control => "control",
            Self::Packet => "packet",
        }
    }

    /// The stream priority: more urgent classes are transmitted first.
    pub(super) const fn priority(self) -> i32 {
        match self {
            Self::Maintenance => 3,
            Self::Control => 2,
            Self::Packet => 1,
        }
    }
}

/// One message on its way to a peer. `head` and `payload` arrive as one body;
/// they are apart so that a payload shared by many receivers is not copied.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The class of the frame, with its slot.
    pub class: Class,
    /// The first part of the body.
    pub head: Bytes,
    /// The rest of the body.
    pub payload: Bytes,
    /// Peers that the body names. The transport attaches a peer's contact unless it remembers that
    /// it has told that contact on the same stream.
    pub introduces: Vec<PeerId>,
    /// The function that merges this head with that of an older frame in the same slot. The newer
    /// frame replaces the older one if this is `None` or returns `None`.
    pub merge: Option<Merge>,
}

/// Makes one head of two that wait in one slot, the older and the newer.
pub type Merge = fn(&Bytes, &Bytes) -> Option<Bytes>;

impl Frame {
    /// The length of the body.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The frame that takes the place of `older`, a frame in the same slot as this newer one.
    pub(super) fn in_place_of(self, older: &Self) -> Self {
        let merged = self.merge.and_then(|merge| merge(&older.head, &self.head));
        match merged {
            Some(head) => Self { head, ..self },
            None => self,
        }
    }
}

/// The kind of a stream, given by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// The one persistent stream of a class.
    Persistent(PlainClass),
    /// One packet too large for the persistent stream.
    Large,
}

impl StreamKind {
    pub(super) const fn tag(self) -> u8 {
        match self {
            Self::Persistent(PlainClass::Maintenance) => 1,
            Self::Persistent(PlainClass::Control) => 2,
            Self::Persistent(PlainClass::Packet) => 3,
            Self::Large => 4,
        }
    }

    pub(super) const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            1 => Some(Self::Persistent(PlainClass::Maintenance)),
            2 => Some(Self::Persistent(PlainClass::Control)),
            3 => Some(Self::Persistent(PlainClass::Packet)),
            4 => Some(Self::Large),
            _ => None,
        }
    }

    pub(super) const fn class(self) -> PlainClass {
        match self {
            Self::Persistent(class) => class,
            Self::Large => PlainClass::Packet,
        }
    }
}

/// Why an incoming frame, and with it the connection, is refused. A datagram is only dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedFrame {
    /// The body is longer than its class allows.
    #[error("the frame is longer than its class allows")]
    Oversized,
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    Truncated,
    /// The frame has another version.
    #[error("the frame has an unknown version")]
    Version,
    /// Undefined flags, an unknown or repeated stream, a second frame on a large stream, contacts
    /// that do not parse or are out of bounds, or a greeting that is malformed or out of place.
    #[error("the frame is malformed")]
    Malformed,
    /// The long frame did not end in time, and other frames waited for its room.
    #[error("the frame began and did not end in time")]
    Overdue,
}

impl RefusedFrame {
    pub(super) const ALL: [Self; 5] = [
        Self::Oversized,
        Self::Truncated,
        Self::Version,
        Self::Malformed,
        Self::Overdue,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Oversized => "oversized",
            Self::Truncated => "truncated",
            Self::Version => "version",
            Self::Malformed => "malformed",
            Self::Overdue => "overdue",
        }
    }
}

/// The parsed header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) contacts_len: usize,
    pub(super) body_len: usize,
}

impl Header {
    /// Parse the header at the start of `bytes`; `None` if there are too few.
    pub(super) fn parse(bytes: &[u8], body_max: usize) -> Result<Option<Self>, RefusedFrame> {
        // Check the version first and alone: another version may have another header.
        match bytes.first() {
            None => return Ok(None),
            Some(&VERSION) => {}
            Some(_) => return Err(RefusedFrame::Version),
        }
        let Some(mut fields) = bytes.get(1..HEADER_LEN) else {
            return Ok(None);
        };
        let flags = fields.get_u8();
        let contacts_len = usize::from(fields.get_u16());
        let body_len = fields.get_u32() as usize;
        if flags & !FLAG_CONTACTS != 0 || ((flags & FLAG_CONTACTS == 0) != (contacts_len == 0)) {
            return Err(RefusedFrame::Malformed);
        }
        if body_len > body_max {
            return Err(RefusedFrame::Oversized);
        }
        Ok(Some(Self {
            contacts_len,
            body_len,
        }))
    }

    pub(super) const fn frame_len(&self) -> usize {
        HEADER_LEN + self.contacts_len + self.body_len
    }
}

/// Write header and contacts of a frame whose body has `body_len` bytes. If the contacts are too
/// many or too long, only the first ones are written. Returns how many were written.
pub(super) fn put_header(out: &mut BytesMut, contacts: &[Contact], body_len: usize) -> usize {
    let mut taken = contacts.len().min(CONTACTS_MAX);
    let encoded = loop {
        let some = contacts.get(..taken).unwrap_or_default();
        if some.is_empty() {
            break Vec::new();
        }
        match postcard::to_stdvec(some) {
            Ok(bytes) if bytes.len() <= usize::from(u16::MAX) => break bytes,
            _ => taken /= 2,
        }
    };
    out.put_u8(VERSION);
    out.put_u8(if encoded.is_empty() { 0 } else { FLAG_CONTACTS });
    out.put_u16(encoded.len() as u16);
    out.put_u32(body_len as u32);
    out.extend_from_slice(&encoded);
    taken
}

/// Parse the contacts of a frame; too many, or one out of bounds, are refused.
pub(super) fn parse_contacts(bytes: &[u8]) -> Result<Vec<Contact>, RefusedFrame> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let contacts: Vec<Contact> =
        postcard::from_bytes(bytes).map_err(|_| RefusedFrame::Malformed)?;
    let is_short = contacts.len() <= CONTACTS_MAX;
    match is_short && contacts.iter().all(Contact::is_within_bounds) {
        true => Ok(contacts),
        false => Err(RefusedFrame::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(name: &str) -> Contact {
        Contact {
            id: PeerId::of_uri(name),
            name: name.to_owned(),
            addresses: vec!["127.0.0.1:1".parse().expect("an address")],
            metrics: None,
        }
    }

    #[test]
    fn emitted_headers_and_contacts_parse() {
        for contacts in [vec![], vec![contact("a")], vec![contact("a"), contact("b")]] {
            let mut out = BytesMut::new();
            assert_eq!(put_header(&mut out, &contacts, 7), contacts.len());
            let header = Header::parse(&out, 7).expect("valid").expect("complete");
            assert_eq!(header.body_len, 7);
            assert_eq!(header.frame_len(), out.len() + 7);
            assert_eq!(parse_contacts(&out[HEADER_LEN..]), Ok(contacts));
        }
    }

    #[test]
    fn bad_headers_are_refused() {
        let table: [(&[u8], Result<bool, RefusedFrame>); 7] = [
            (&[], Ok(false)),
            (&[VERSION, 0, 0, 0, 0, 0, 0], Ok(false)),
            (&[VERSION, 0, 0, 0, 0, 0, 0, 9], Ok(true)),
            (
                &[VERSION, 0, 0, 0, 0, 0, 0, 10],
                Err(RefusedFrame::Oversized),
            ),
            (&[VERSION + 1], Err(RefusedFrame::Version)),
            (
                &[VERSION, 2, 0, 0, 0, 0, 0, 0],
                Err(RefusedFrame::Malformed),
            ),
            (
                &[VERSION, 0, 0, 1, 0, 0, 0, 0],
                Err(RefusedFrame::Malformed),
            ),
        ];
        for (bytes, expected) in table {
            let parsed = Header::parse(bytes, 9).map(|header| header.is_some());
            assert_eq!(parsed, expected, "{bytes:?}");
        }
    }

    #[test]
    fn more_contacts_than_fit_are_left_for_later() {
        let mut long = contact(&"x".repeat(128));
        long.addresses = vec!["[2001:db8::ffff:1]:65535".parse().expect("an address"); 4];
        for one in [contact("a"), long] {
            let many = vec![one; 2000];
            let mut out = BytesMut::new();
            assert_eq!(put_header(&mut out, &many, 0), CONTACTS_MAX);
            let parsed = parse_contacts(&out[HEADER_LEN..]);
            assert_eq!(parsed.map(|got| got.len()), Ok(CONTACTS_MAX));
        }
    }

    #[test]
    fn contacts_that_nobody_honest_tells_are_refused() {
        let nowhere = Contact {
            addresses: Vec::new(),
            ..contact("a")
        };
        for told in [vec![contact("a"), nowhere], vec![contact("a"); 257]] {
            let bytes = postcard::to_stdvec(&told).expect("encodable");
            assert_eq!(parse_contacts(&bytes), Err(RefusedFrame::Malformed));
        }
    }
}
