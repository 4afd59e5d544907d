//! A member that denies the rank that it holds.

use crate::network::single::{ORIGIN, Single, placed};
use binomesh_overlay::Rank;
use binomesh_routing::packet::{CustodyRefusal, Errand, Exception, Message, Reason, Span, State};
use binomesh_routing::{Config, Destination};

fn done(errand: Errand<u32>, exceptions: Vec<Exception<u32>>) -> Message<u32> {
    Message::Done {
        errand,
        exceptions,
        redelegated: 0,
        replaced: Vec::new(),
    }
}

/// The member lied, or its state was corrupted, and no new epoch comes. The origin tries that
/// member again after the longest wait between two rounds. The other members have no route to it.
#[test]
fn a_member_that_denied_its_rank_is_tried_again_in_the_same_epoch() {
    let mut origin = Single::new(ORIGIN);
    placed(1, 8, &mut origin);
    origin.publish(Destination::Peers(vec![1003]));
    let (mut tries, mut waits) = (0, Vec::new());
    while origin.receipts.is_empty() && waits.len() < 20 {
        while let packets = origin.packets()
            && !packets.is_empty()
        {
            for (to, packet) in packets {
                let errand = packet.header.errand;
                tries += u32::from(to == 1003);
                let no_route = Exception {
                    span: Span::single(Rank(3).0),
                    peer: None,
                    state: State::Unconfirmed,
                    reason: Reason::NoRoute,
                };
                let reason = CustodyRefusal::NotThatRank;
                let answer = match (to, tries) {
                    (1003, 1) => Message::Refused { errand, reason },
                    (1003, _) => done(errand, Vec::new()),
                    _ => done(errand, vec![no_route]),
                };
                origin.hear(to, answer);
            }
        }
        if origin.receipts.is_empty() {
            waits.push(origin.next_round());
        }
    }
    assert_eq!(tries, 2, "{waits:?}");
    assert!(origin.receipts[0].is_complete());
    assert_eq!(waits.last(), Some(&Config::REISSUE_CAP));
}
