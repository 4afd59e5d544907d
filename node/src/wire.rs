//! Messages of a peer as frames of the transport, and back.
//!
//! ```text
//!   maintenance class   version (3)  overlay message (postcard)
//!   other classes       version (0xc1)  frame of collectives (postcard), or
//!                       what `binomesh_routing::wire` says
//! ```

use binomesh_overlay::quic::{Class, Frame, PlainClass, SlotKey};
use binomesh_overlay::{self as overlay, PeerId};
use binomesh_routing::{self as routing, collective};
use bytes::Bytes;

use crate::catalogue;
use crate::peer::Message;

/// The version of maintenance messages that this node sends and accepts.
const VERSION: u8 = 3;
/// The version of frames of collectives, which differs from all versions of the relay's messages.
const COLLECTIVE_VERSION: u8 = 0xc1;

/// Why a frame holds no message. The frame is counted and dropped; the link stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the message has the version {0:?}, but this node expects {VERSION}")]
    Version(Option<u8>),
    #[error("the message is malformed")]
    Malformed,
}

impl Refused {
    /// The label of the reason in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Version(_) => "version",
            Self::Malformed => "malformed",
        }
    }
}

/// The frame of a message; `None` if it cannot be encoded, which never happens with messages of
/// this version.
pub(crate) fn frame(message: &Message<PeerId>) -> Option<Frame> {
    match message {
        Message::Overlay(message) => {
            let head = postcard::to_extend(message, vec![VERSION]).ok()?;
            let overlay::Slot {
                kind,
                level,
                subject,
            } = message.slot();
            Some(Frame {
                class: Class::Maintenance(SlotKey {
                    kind,
                    level,
                    subject,
                }),
                head: head.into(),
                payload: Bytes::new(),
                introduces: message.introduces(),
                merge: message.is_merged().then_some(merge),
            })
        }
        Message::Collective(frame) => {
            let head = postcard::to_extend(frame, vec![COLLECTIVE_VERSION]).ok()?;
            Some(Frame {
                class: match frame {
                    collective::Frame::Up { .. } => Class::Control,
                    collective::Frame::Down { .. } => Class::Packet,
                },
                head: head.into(),
                payload: Bytes::new(),
                introduces: Vec::new(),
                merge: None,
            })
        }
        Message::Relay(message) => {
            let (head, payload) = routing::wire::encode(message).ok()?;
            let class = match message.class() {
                routing::packet::Class::Control => Class::Control,
                routing::packet::Class::Packet => Class::Packet,
            };
            let introduces = message.introduces();
            Some(Frame {
                class,
                head,
                payload,
                introduces,
                merge: None,
            })
        }
    }
}

/// Merge two maintenance messages that wait in one slot into one body.
fn merge(older: &Bytes, newer: &Bytes) -> Option<Bytes> {
    let read = |body| match message(PlainClass::Maintenance, body) {
        Ok(Message::Overlay(message)) => Some(message),
        _ => None,
    };
    let (both, dropped) = read(newer)?.merge(read(older)?);
    if dropped > 0 {
        catalogue::RUMOURS_DROPPED.get().increment(dropped as u64);
    }
    let body = postcard::to_extend(&both, vec![VERSION]).ok()?;
    Some(body.into())
}

/// The message of a frame.
pub(crate) fn message(class: PlainClass, body: &Bytes) -> Result<Message<PeerId>, Refused> {
    if class != PlainClass::Maintenance
        && let Some((&COLLECTIVE_VERSION, body)) = body.split_first()
    {
        return match postcard::take_from_bytes(body) {
            Ok((frame, [])) => Ok(Message::Collective(frame)),
            _ => Err(Refused::Malformed),
        };
    }
    if class != PlainClass::Maintenance {
        return match routing::wire::decode(body) {
            Ok(message) => Ok(Message::Relay(message)),
            Err(routing::wire::DecodeError::Version(version)) => Err(Refused::Version(version)),
            Err(_) => Err(Refused::Malformed),
        };
    }
    let (&version, body) = body.split_first().ok_or(Refused::Version(None))?;
    if version != VERSION {
        return Err(Refused::Version(Some(version)));
    }
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(Message::Overlay(message)),
        _ => Err(Refused::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use binomesh_overlay::noise::Noise;
    use binomesh_overlay::overlay::garbage;

    use super::*;

    fn body(frame: &Frame) -> Bytes {
        [&frame.head[..], &frame.payload[..]].concat().into()
    }

    #[test]
    fn overlay_messages_round_trip() {
        let peers: Vec<_> = ["a", "b", "c"].map(PeerId::of_uri).to_vec();
        let mut noise = Noise::new(1);
        for _ in 0..500 {
            let sent = Message::Overlay(garbage(&mut noise, &peers).unwrap());
            let frame = frame(&sent).unwrap();
            assert_eq!(message(frame.class.plain(), &body(&frame)), Ok(sent));
        }
    }

    #[test]
    fn batches_of_rumours_in_one_slot_are_sent_as_one() {
        let peers = ["a", "b"].map(PeerId::of_uri);
        let rumour = |peer| overlay::detector::Rumour {
            peer,
            boot: 1,
            incarnation: 0,
            mark: None,
            is_up: false,
        };
        let batch = |peers: &[PeerId]| {
            let rumours = peers.iter().copied().map(rumour).collect();
            let batch = overlay::detector::Message::Rumours(rumours);
            frame(&Message::Overlay(batch.into())).unwrap()
        };
        let (older, newer) = (batch(&peers[..1]), batch(&peers[1..]));
        assert_eq!(older.class, newer.class);
        let merge = newer.merge.unwrap();
        let both = merge(&older.head, &newer.head).unwrap();
        assert_eq!(both, batch(&peers).head);
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let peers = [PeerId::of_uri("a")];
        let sent = Message::Overlay(garbage(&mut Noise::new(1), &peers).unwrap());
        let good = body(&frame(&sent).unwrap());
        let cut = good.slice(..good.len() - 1);
        let longer = [&good[..], &[0]].concat().into();
        let newer = [&[9], &good[1..]].concat().into();
        for (bytes, refused) in [
            (cut, Refused::Malformed),
            (longer, Refused::Malformed),
            (newer, Refused::Version(Some(9))),
            (Bytes::new(), Refused::Version(None)),
        ] {
            assert_eq!(message(PlainClass::Maintenance, &bytes), Err(refused));
        }
    }

    #[test]
    fn no_bytes_make_decoding_panic() {
        let mut noise = Noise::new(7);
        for length in 0..2000_usize {
            let bytes: Bytes = (0..length % 97).map(|_| noise.next() as u8).collect();
            let versioned: Bytes = [&[VERSION], &bytes[..]].concat().into();
            for class in PlainClass::ALL {
                let _ = message(class, &bytes);
                let _ = message(class, &versioned);
            }
        }
    }
}
