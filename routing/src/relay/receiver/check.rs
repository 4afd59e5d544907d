//! The checks that need only a packet and its epoch.

use binomesh_overlay::Id;

use crate::packet::{CustodyRefusal, Packet, Part, Stood};
use crate::relay::context::Context;

/// Check everything that the packet and its epoch alone can show.
pub(super) fn check<I: Id>(packet: &Packet<I>, cx: &Context<'_, I>) -> Result<(), CustodyRefusal> {
    let header = &packet.header;
    let errand = &header.errand;
    if packet.payloads.longest() > cx.config.payload_max {
        return Err(CustodyRefusal::TooLarge);
    }
    if errand.id.origin == cx.me || header.closed_below > errand.id.sequence {
        return Err(CustodyRefusal::Malformed);
    }
    if cx.epochs.is_gone(errand.epoch) {
        return Err(CustodyRefusal::EpochGone);
    }
    let Some(view) = cx.epochs.find(errand.epoch) else {
        return Ok(());
    };
    let placement = view.placement();
    if header.to != placement.rank {
        return Err(CustodyRefusal::NotThatRank);
    }
    let n = placement.population.get();
    if !header.origin_rank.is_within(placement.population) || !errand.part.is_within(n) {
        return Err(CustodyRefusal::Malformed);
    }
    let layout = errand
        .strategy
        .layout(placement.population, header.origin_rank);
    let Some(mine) = layout.map(|layout| layout.position(placement.rank)) else {
        return Err(CustodyRefusal::Malformed);
    };
    let is_right = match &errand.part {
        Part::Range(span) => span.start == mine,
        Part::Routed { spans, visited, .. } => {
            !visited.contains(&placement.rank) && spans.iter().all(|span| span.start != mine)
        }
    };
    if !is_right || !header.is_named_in_full() {
        return Err(CustodyRefusal::Malformed);
    }
    let is_step = matches!(errand.part, Part::Routed { .. });
    let mut named = header.names.first().filter(|_| !is_step).into_iter();
    let stood = header.stood.as_ref().filter(|_| !is_step);
    // Two peers may claim one rank. Each takes only its own copies: a copy that names the other is
    // refused, and so is a copy for a rank that this node did not hold in the epoch in which the
    // origin counted the members.
    if named.all(|name| *name == cx.me) && !stood.is_some_and(|stood| denies(stood, cx)) {
        Ok(())
    } else {
        Err(CustodyRefusal::NotThatPeer)
    }
}

/// Whether this node knows that it held another rank when the origin counted it.
fn denies<I: Id>(stood: &Stood<I>, cx: &Context<'_, I>) -> bool {
    let said = stood.ranks.first().copied().flatten();
    let is_known = |rank| cx.epochs.has_stood(stood.epoch, rank) == Some(false);
    said.is_some_and(is_known)
}
