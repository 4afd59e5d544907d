//! Duplicate windows: which messages of each origin were delivered here.

use std::collections::{BTreeMap, BTreeSet};

use binomesh_overlay::Id;

use super::Config;
use crate::packet::PacketId;

/// What a window says about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not delivered yet.
    New,
    /// Delivered before.
    Delivered,
    /// Closed by its origin, of an earlier boot, or beyond the window.
    Outside,
    /// There is no room for one more origin.
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Window {
    boot: u64,
    closed_below: u64,
    /// Sequences in `closed_below .. closed_below + window`.
    delivered: BTreeSet<u64>,
    /// When it was last used, in packets.
    used: u64,
}

/// The windows of all origins; at most `config.max_origins`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Windows<I> {
    windows: BTreeMap<I, Window>,
    uses: u64,
}

impl<I: Id> Windows<I> {
    pub(super) const fn new() -> Self {
        Self {
            windows: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Judge a packet and raise the origin's mark. A higher boot begins anew.
    /// `may_go` says which origin may give way when there is no room.
    pub(super) fn judge(
        &mut self,
        id: PacketId<I>,
        closed_below: u64,
        config: &Config,
        may_go: impl Fn(I) -> bool,
    ) -> Verdict {
        self.uses += 1;
        if !self.windows.contains_key(&id.origin) && !self.make_room(config, may_go) {
            return Verdict::Full;
        }
        let fresh = || Window {
            boot: id.boot,
            closed_below: 0,
            delivered: BTreeSet::new(),
            used: 0,
        };
        let window = self.windows.entry(id.origin).or_insert_with(fresh);
        if window.boot < id.boot {
            *window = fresh();
        }
        window.used = self.uses;
        if window.boot > id.boot {
            return Verdict::Outside;
        }
        if closed_below > window.closed_below && closed_below <= id.sequence {
            window.closed_below = closed_below;
            window.delivered = window.delivered.split_off(&closed_below);
        }
        let end = window.closed_below.saturating_add(config.window);
        if id.sequence < window.closed_below || id.sequence >= end {
            Verdict::Outside
        } else if window.delivered.contains(&id.sequence) {
            Verdict::Delivered
        } else {
            Verdict::New
        }
    }

    /// Note a delivery; the packet was judged [`Verdict::New`] just before.
    pub(super) fn deliver(&mut self, id: PacketId<I>) {
        if let Some(window) = self.windows.get_mut(&id.origin) {
            window.delivered.insert(id.sequence);
        }
    }

    /// The mark below which this origin and boot answers for nothing.
    pub(super) fn closed_below(&self, id: PacketId<I>) -> u64 {
        let window = self.windows.get(&id.origin);
        window
            .filter(|window| window.boot == id.boot)
            .map_or(0, |window| window.closed_below)
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
        oldest.is_some_and(|origin| self.windows.remove(&origin).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(boot: u64, sequence: u64) -> PacketId<u32> {
        PacketId {
            origin: 7,
            boot,
            sequence,
        }
    }

    #[test]
    fn once_within_the_window_and_never_below_the_mark() {
        let config = Config {
            window: 4,
            ..Config::default()
        };
        let mut windows = Windows::new();
        let judge =
            |windows: &mut Windows<u32>, id, closed| windows.judge(id, closed, &config, |_| false);
        assert_eq!(judge(&mut windows, id(1, 0), 0), Verdict::New);
        windows.deliver(id(1, 0));
        assert_eq!(judge(&mut windows, id(1, 0), 0), Verdict::Delivered);
        assert_eq!(judge(&mut windows, id(1, 4), 0), Verdict::Outside);
        assert_eq!(judge(&mut windows, id(1, 4), 1), Verdict::New);
        assert_eq!(judge(&mut windows, id(1, 0), 0), Verdict::Outside);
        // A mark above its own packet is a contradiction and moves nothing.
        assert_eq!(judge(&mut windows, id(1, 3), 900), Verdict::New);
        // A new boot begins anew; the old one is over.
        assert_eq!(judge(&mut windows, id(2, 0), 0), Verdict::New);
        assert_eq!(judge(&mut windows, id(1, 4), 1), Verdict::Outside);
    }

    #[test]
    fn only_a_dispensable_origin_gives_way() {
        let config = Config {
            max_origins: 2,
            ..Config::default()
        };
        let mut windows = Windows::new();
        let of = |origin| PacketId {
            origin,
            boot: 1,
            sequence: 0,
        };
        for origin in [1u32, 2] {
            assert_eq!(
                windows.judge(of(origin), 0, &config, |_| false),
                Verdict::New
            );
            windows.deliver(of(origin));
        }
        assert_eq!(windows.judge(of(3), 0, &config, |_| false), Verdict::Full);
        assert_eq!(
            windows.judge(of(3), 0, &config, |origin| origin == 1),
            Verdict::New
        );
        assert_eq!(
            windows.judge(of(2), 0, &config, |_| false),
            Verdict::Delivered
        );
    }
}
