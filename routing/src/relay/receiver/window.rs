//! Duplicate windows: the messages of each origin that were delivered here.
//!
//! Every copy carries the boot of its origin (the number of its life) and its mark (the sequence
//! below which it answers for no message). Most copies come from other nodes (*hearsay*). Hearsay
//! can only raise boot and mark, and a liar may raise them out of reach. So the origin's own
//! packets count more, and take hearsay back. The transport decides which life an origin is in when
//! it links the origin, whatever the numbers of its lives are.

use std::collections::BTreeMap;

use binomesh_overlay::Id;

use super::delivered_sequences::DeliveredSequences;
use crate::packet::PacketId;
use crate::relay::Config;

/// The judgement of a window about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Novelty {
    /// Some of its messages were not delivered yet.
    New,
    /// All of its messages were delivered before.
    Delivered,
    /// The packet is closed by its origin, of an earlier boot, or beyond the window.
    Outside,
    /// The packet is of a new origin, and there is no room for one more.
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Window {
    /// The newest boot and its mark, hearsay included.
    heard: (u64, u64),
    /// The latest boot and its mark that the origin itself has told.
    own: (u64, u64),
    /// The delivered messages, also below the mark. A mark goes back when hearsay is taken back,
    /// and no message may be delivered twice then.
    delivered: DeliveredSequences,
    /// The count of judged packets when this window was last used.
    used: u64,
}

/// The statement of a copy about its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The mark of the origin.
    pub(super) closed_below: u64,
    /// The origin answers for this message, even below its mark.
    pub(super) is_kept: bool,
    /// Whether the origin itself sent the copy.
    pub(super) source: Source,
}

/// The node that handed a copy on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The origin of the message itself.
    Origin,
    /// Another node than the origin.
    Hearsay,
}

/// The windows of all origins; at most `config.max_origins`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Windows<I> {
    windows: BTreeMap<I, Window>,
    uses: u64,
    /// The number of intervals of delivered sequences of all origins.
    intervals: usize,
}

impl<I: Id> Windows<I> {
    /// While all origins together have this number of intervals, the next delivery of an origin cuts
    /// its own intervals to [`Self::SHARE`]. A guess: so many take some 50 MB, which a node in a large
    /// cluster has, and only many origins with many gaps each reach it.
    const MAX_INTERVALS: usize = 1 << 20;
    /// The intervals that each origin may have however many the others have; with the most origins
    /// they take some 50 MB more. An origin may have more gaps than that above its mark. A message
    /// whose interval is forgotten is then delivered again if another copy of it comes.
    const SHARE: usize = 128;

    pub(super) const fn new() -> Self {
        Self {
            windows: BTreeMap::new(),
            uses: 0,
            intervals: 0,
        }
    }

    /// A link connects this node to this life of an origin. A greater boot that was noted before is
    /// forgotten, whether it was hearsay or belongs to a life that is over. Later hearsay may bring
    /// it again.
    pub(super) fn meet(&mut self, origin: I, boot: u64) {
        let Some(window) = self.windows.get_mut(&origin) else {
            return;
        };
        if window.own.0 > boot {
            window.own = (boot, 0);
        }
        if window.heard.0 > boot {
            window.heard = window.own.max((boot, 0));
        }
    }

    /// Judge a packet with `count` messages, and move the origin's boot and mark. A higher boot
    /// begins with a new mark, and the origin's own packet replaces hearsay. The second value of
    /// the result says whether boot or mark went back. `may_go` says which origin may give way when
    /// there is no room.
    pub(super) fn judge(
        &mut self,
        id: PacketId<I>,
        count: u64,
        said: Claim,
        config: &Config,
        may_go: impl Fn(I) -> bool,
    ) -> (Novelty, bool) {
        self.uses += 1;
        if !self.windows.contains_key(&id.origin) && !self.make_room(config, may_go) {
            return (Novelty::Full, false);
        }
        let window = self.windows.entry(id.origin).or_insert_with(|| Window {
            heard: (id.boot, 0),
            own: (0, 0),
            delivered: DeliveredSequences::default(),
            used: 0,
        });
        window.used = self.uses;
        // A mark above its own packet is a contradiction and moves nothing.
        let mark = Some(said.closed_below).filter(|mark| *mark <= id.sequence);
        let told = (id.boot, mark.unwrap_or(0));
        let before = window.heard;
        match said.source {
            Source::Origin => {
                // The life that speaks is the present one, even if its boot is smaller.
                window.own = match window.own.0 == told.0 {
                    true => window.own.max(told),
                    false => told,
                };
                window.heard = window.own;
            }
            Source::Hearsay => window.heard = window.heard.max(told),
        }
        let verdict = window.verdict(id, count, said.is_kept, config);
        (verdict, window.heard < before)
    }

    /// Note the delivery of `count` messages, whose packet was judged [`Novelty::New`] just before.
    /// Returns the sequences of those that are not new, and how many intervals were forgotten
    /// because all origins together have too many.
    pub(super) fn deliver(
        &mut self,
        id: PacketId<I>,
        count: u64,
        config: &Config,
    ) -> (Vec<u64>, usize) {
        let all = id.sequence..id.sequence.saturating_add(count);
        let Some(window) = self.windows.get_mut(&id.origin) else {
            return (all.collect(), 0);
        };
        let before = window.delivered.len();
        let known = window.delivered.insert(id.boot, all);
        let own = usize::try_from(config.window).unwrap_or(usize::MAX);
        window.delivered.shrink(id.boot, own);
        let crowded_out = match self.intervals < Self::MAX_INTERVALS {
            true => 0,
            false => window.delivered.shrink(id.boot, Self::SHARE),
        };
        self.intervals = self.intervals - before + window.delivered.len();
        (known, crowded_out)
    }

    /// Whether a message was delivered, as far as that is remembered.
    pub(super) fn has_delivered(&self, id: PacketId<I>) -> bool {
        let window = self.windows.get(&id.origin);
        window.is_some_and(|window| window.delivered.has(id.boot, id.sequence))
    }

    /// The mark below which this origin, in this boot, answers for no message.
    pub(super) fn closed_below(&self, id: PacketId<I>) -> u64 {
        let window = self.windows.get(&id.origin);
        window
            .filter(|window| window.heard.0 == id.boot)
            .map_or(0, |window| window.heard.1)
    }

    fn make_room(&mut self, config: &Config, may_go: impl Fn(I) -> bool) -> bool {
        if self.windows.len() < config.max_origins {
            return true;
        }
        let oldest = self
            .windows
            .iter()
            .filter(|(origin, _)| may_go(**origin))
            .min_by_key(|(_, window)| window.used)
            .map(|(origin, _)| *origin);
        let gone = oldest.and_then(|origin| self.windows.remove(&origin));
        self.intervals -= gone.as_ref().map_or(0, |window| window.delivered.len());
        gone.is_some()
    }
}

impl Window {
    fn verdict(
        &self,
        id: PacketId<impl Id>,
        count: u64,
        is_kept: bool,
        config: &Config,
    ) -> Novelty {
        let (boot, mark) = self.heard;
        let end = id.sequence.saturating_add(count);
        let is_known = self.delivered.remembers(id.boot, id.sequence);
        let is_below = id.sequence < mark && is_kept && is_known;
        let is_within = mark <= id.sequence && end - mark <= config.window;
        let mut all = id.sequence..end;
        if boot != id.boot || !(is_within || is_below) {
            Novelty::Outside
        } else if all.all(|sequence| self.delivered.has(id.boot, sequence)) {
            Novelty::Delivered
        } else {
            Novelty::New
        }
    }
}

#[cfg(test)]
mod tests;
