//! Which process of an identity is admitted: the rule of greetings.
//!
//! A process greets with the boot of its life, proven by a signature. The greeted peer remembers
//! the newest proven life of each identity that it has admitted. The *holder* is a process of that
//! identity that already has a link to this peer.
//!
//! ```text
//!   no other process holds a link ──────────────────▶ admitted, or outdated if it is older
//!                                                     than the newest proven life
//!   older than the newest proven life, and starting ─▶ outdated: it is shown that life
//!   newer, proven, in the place of the holder ──────▶ admitted: the holder is gone
//!   the holder is asked: it is silent ──────────────▶ admitted, or outdated
//!                        it lives ──────────────────▶ refused; of two members the newer
//!                                                     one stays and the other ends
//! ```
//!
//! An unproven boot raises, stops and displaces nothing: it only tells two processes apart. So an
//! invented number is no weapon.
//!
//! Not here: signatures, questions to a holder, connections. The QUIC transport and the
//! simulated world run these rules.

use std::collections::BTreeMap;

use crate::Id;

/// The greatest boot. No process runs or greets with the number above it, so that a greater number
/// always exists for each boot.
pub const BOOT_MAX: u64 = u64::MAX - 1;

/// A boot that is ahead of the clock is raised by a random number below this. If a process forgets
/// such a life and again begins a life above the same boot, the two lives get the same number once
/// in a million times.
const AHEAD: u64 = 1 << 20;

/// The boot of a life: the time of the clock, if that is at least `least`, otherwise `least` or a
/// little more, but not above [`BOOT_MAX`] unless `least` is; `noise` is random.
pub const fn next_boot(least: u64, clock: u64, noise: u64) -> u64 {
    if clock >= least {
        return clock;
    }
    let boot = least.saturating_add(noise % AHEAD);
    match least <= BOOT_MAX && boot > BOOT_MAX {
        true => BOOT_MAX,
        false => boot,
    }
}

/// How many peers' newest lives a node remembers. One more displaces the life of the peer that was
/// admitted longest ago. An older process of a displaced peer is then admitted and is not told of
/// the newer life. A guess: a node meets its neighbours, about 39 in a cluster of 2^20 nodes.
pub const MAX_LIVES: usize = 1024;

/// The statements of a process about itself in its greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Greeter {
    /// The boot of its life.
    pub boot: u64,
    /// Whether its signature for that boot holds.
    pub is_proven: bool,
    /// Whether it was counted with other nodes in this life. If not, it is starting.
    pub is_member: bool,
}

/// The process of the same identity that holds a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The holder's greeting, with its present membership.
    pub greeter: Greeter,
    /// Whether the greeting comes from the very address of this link, where only one process can
    /// be, or from a process that has both connections.
    pub is_same_place: bool,
}

/// The answer of the holder of a link to the question about the new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// No answer within a beat.
    Silence,
    /// The connection belongs to the holder itself.
    Own,
    /// The connection belongs to another process.
    Foreign,
}

/// The outcome for a process that greets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// The process is admitted. If there is a holder, it is the same process.
    Admitted,
    /// The process is admitted, and the holder's process is gone.
    Replaces,
    /// The holder has to be asked first.
    Asks,
    /// A newer life of the identity is proven, and the process is shown that life.
    Outdated,
    /// Another process of the identity lives and stays.
    Refused,
    /// The process is admitted. The holder lives: its link is closed, it is shown the new life when
    /// it greets again, and it ends.
    Displaces,
}

/// Judge a greeting. `newest` is the newest proven life of the identity that was admitted.
pub fn admission(
    greeter: Greeter,
    newest: Option<u64>,
    holder: Option<Holder>,
    answer: Option<Answer>,
) -> Admission {
    let is_outdated = newest.is_some_and(|newest| newest > greeter.boot);
    let Some(holder) = holder else {
        return match is_outdated {
            true => Admission::Outdated,
            false => Admission::Admitted,
        };
    };
    let linked = holder.greeter;
    if is_outdated && !greeter.is_member {
        return Admission::Outdated;
    }
    if holder.is_same_place && greeter.boot == linked.boot {
        return Admission::Admitted;
    }
    if holder.is_same_place && greeter.is_proven && greeter.boot > linked.boot {
        return Admission::Replaces;
    }
    match answer {
        None => Admission::Asks,
        Some(Answer::Silence) if is_outdated => Admission::Outdated,
        Some(Answer::Silence) => Admission::Replaces,
        Some(Answer::Own) if greeter.boot == linked.boot => Admission::Admitted,
        Some(Answer::Own | Answer::Foreign) => {
            let are_members = greeter.is_member && linked.is_member;
            match are_members && greeter.is_proven && greeter.boot > linked.boot {
                true => Admission::Displaces,
                false => Admission::Refused,
            }
        }
    }
}

/// The reaction of a process that is shown a life of its own identity, with a valid signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consequence {
    /// The process ignores it: that life is over or is its own, or its boot is too great to be
    /// real.
    Nothing,
    /// The process begins a life above that boot: at once if it is starting. A member closes its
    /// links first, once a minute at most.
    NewLife {
        /// The least boot of the new life.
        least: u64,
    },
    /// The process looks for the other one, and ends if it finds it.
    Search,
}

/// How a process in the life `own` reacts to the boot `shown`. `lives` says whether the process
/// with that boot is reported to live.
pub fn consequence(own: Greeter, shown: u64, lives: bool) -> Consequence {
    if shown <= own.boot || shown >= BOOT_MAX {
        return Consequence::Nothing;
    }
    match lives && own.is_member {
        true => Consequence::Search,
        false => Consequence::NewLife { least: shown + 1 },
    }
}

/// The newest proven life of each admitted peer, with its proof; at most [`MAX_LIVES`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lives<I, P> {
    newest: BTreeMap<I, KnownLife<P>>,
    uses: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct KnownLife<P> {
    boot: u64,
    proof: P,
    used: u64,
}

impl<I: Id, P> Lives<I, P> {
    /// No lives yet.
    pub const fn new() -> Self {
        Self {
            newest: BTreeMap::new(),
            uses: 0,
        }
    }

    /// Note that a proven life was admitted. For an equal boot the newer proof is kept, which may
    /// come from a renewed certificate. Returns whether another peer's life was forgotten for it.
    pub fn note(&mut self, peer: I, boot: u64, proof: P) -> bool {
        if self.newest(peer).is_some_and(|(newest, _)| newest > boot) {
            return false;
        }
        self.uses += 1;
        let used = self.uses;
        self.newest.insert(peer, KnownLife { boot, proof, used });
        if self.newest.len() <= MAX_LIVES {
            return false;
        }
        let oldest = self.newest.iter().min_by_key(|(_, life)| life.used);
        let oldest = oldest.map(|(peer, _)| *peer);
        oldest.is_some_and(|oldest| self.newest.remove(&oldest).is_some())
    }

    /// The newest proven life of a peer.
    pub fn newest(&self, peer: I) -> Option<(u64, &P)> {
        let life = self.newest.get(&peer)?;
        Some((life.boot, &life.proof))
    }

    /// Forget the lives whose proof does not hold any more.
    pub fn retain(&mut self, mut holds: impl FnMut(I, u64, &P) -> bool) {
        self.newest
            .retain(|peer, life| holds(*peer, life.boot, &life.proof));
    }
}

impl<I: Id, P> Default for Lives<I, P> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Admission::{Admitted, Asks, Displaces, Outdated, Refused, Replaces};
    use Answer::{Foreign, Own, Silence};

    fn starting(boot: u64) -> Greeter {
        Greeter {
            boot,
            is_proven: true,
            is_member: false,
        }
    }

    fn member(boot: u64) -> Greeter {
        Greeter {
            is_member: true,
            ..starting(boot)
        }
    }

    fn bare(greeter: Greeter) -> Greeter {
        Greeter {
            is_proven: false,
            ..greeter
        }
    }

    const fn here(greeter: Greeter) -> Option<Holder> {
        Some(Holder {
            greeter,
            is_same_place: true,
        })
    }

    const fn elsewhere(greeter: Greeter) -> Option<Holder> {
        Some(Holder {
            greeter,
            is_same_place: false,
        })
    }

    #[test]
    fn without_a_holder_only_a_proven_newer_life_is_in_the_way() {
        for (greeter, newest, expected) in [
            (starting(5), None, Admitted),
            (starting(5), Some(5), Admitted),
            (starting(5), Some(4), Admitted),
            (starting(5), Some(6), Outdated),
            (member(5), Some(6), Outdated),
            (bare(starting(5)), Some(6), Outdated),
            (bare(starting(BOOT_MAX)), Some(6), Admitted),
        ] {
            let judged = admission(greeter, newest, None, None);
            assert_eq!(judged, expected, "{greeter:?} {newest:?}");
        }
    }

    #[test]
    fn a_restart_at_the_same_address_needs_no_question_if_it_is_proven() {
        for (greeter, newest, expected) in [
            (starting(6), Some(5), Replaces),
            (starting(5), Some(5), Admitted),
            (bare(starting(6)), Some(5), Asks),
            (bare(starting(5)), None, Admitted),
            // The process has lost its state, and is shown the newest life.
            (starting(4), Some(5), Outdated),
            (bare(starting(4)), None, Asks),
        ] {
            let judged = admission(greeter, newest, here(member(5)), None);
            assert_eq!(judged, expected, "{greeter:?} {newest:?}");
        }
    }

    /// The whole table for a starting or unproven process whose identity is linked from elsewhere.
    #[test]
    fn a_starting_process_stays_outside_while_the_holder_answers() {
        for holder in [starting(5), member(5)] {
            for boot in [5, 6, BOOT_MAX] {
                for greeter in [starting(boot), bare(starting(boot)), bare(member(boot))] {
                    let judge = |answer| admission(greeter, Some(5), elsewhere(holder), answer);
                    assert_eq!(judge(None), Asks);
                    assert_eq!(judge(Some(Silence)), Replaces);
                    assert_eq!(judge(Some(Foreign)), Refused, "{greeter:?}");
                    let own = if boot == 5 { Admitted } else { Refused };
                    assert_eq!(judge(Some(Own)), own);
                }
            }
            let older = admission(starting(4), Some(5), elsewhere(holder), None);
            assert_eq!(older, Outdated, "it needs no question");
        }
    }

    #[test]
    fn of_two_members_the_newer_one_stays() {
        for (greeter, holder, answer, expected) in [
            (member(6), member(5), None, Asks),
            (member(6), member(5), Some(Foreign), Displaces),
            (member(6), member(5), Some(Silence), Replaces),
            (member(4), member(5), None, Asks),
            (member(4), member(5), Some(Foreign), Refused),
            (member(4), member(5), Some(Silence), Outdated),
            (member(5), member(5), Some(Foreign), Refused),
            // The holder is only starting, but came first.
            (member(6), starting(5), Some(Foreign), Refused),
        ] {
            let judged = admission(greeter, Some(5), elsewhere(holder), answer);
            assert_eq!(judged, expected, "{greeter:?} {holder:?} {answer:?}");
        }
    }

    #[test]
    fn a_newer_life_is_outdone_by_a_new_one_unless_it_lives() {
        use Consequence::{NewLife, Nothing, Search};
        for (own, shown, lives, expected) in [
            (starting(5), 4, false, Nothing),
            (starting(5), 5, true, Nothing),
            (starting(5), 6, false, NewLife { least: 7 }),
            (starting(5), 6, true, NewLife { least: 7 }),
            (member(5), 6, false, NewLife { least: 7 }),
            (member(5), 6, true, Search),
            (member(5), BOOT_MAX - 1, false, NewLife { least: BOOT_MAX }),
            (member(5), BOOT_MAX, false, Nothing),
            (member(5), u64::MAX, true, Nothing),
        ] {
            let judged = consequence(own, shown, lives);
            assert_eq!(judged, expected, "{own:?} {shown} {lives}");
        }
    }

    #[test]
    fn a_boot_is_of_the_clock_or_by_chance_above_the_least() {
        assert_eq!(next_boot(5, 5, 99), 5);
        assert_eq!(next_boot(5, 1000, 99), 1000);
        assert_eq!(next_boot(5, 4, 99), 104);
        assert_eq!(next_boot(5, 4, AHEAD + 7), 12);
        assert_eq!(next_boot(BOOT_MAX - 1, 4, 99), BOOT_MAX);
        assert_eq!(next_boot(u64::MAX, 4, 0), u64::MAX, "there is none");
    }

    #[test]
    fn the_newest_lives_are_kept_and_of_too_many_the_one_noted_longest_ago_goes() {
        let mut lives = Lives::new();
        assert!(!lives.note(0, 7, "seven"));
        assert!(!lives.note(0, 6, "six"));
        assert_eq!(lives.newest(0), Some((7, &"seven")));
        assert!(!lives.note(0, 7, "renewed"));
        assert_eq!(lives.newest(0), Some((7, &"renewed")));
        for peer in 1..MAX_LIVES as u32 {
            assert!(!lives.note(peer, 1, "one"));
        }
        assert!(!lives.note(0, 8, "eight"));
        assert!(lives.note(MAX_LIVES as u32, 1, "one"));
        assert_eq!(lives.newest.len(), MAX_LIVES);
        assert_eq!(lives.newest(1), None);
        assert_eq!(lives.newest(0), Some((8, &"eight")));
        lives.retain(|peer, _, _| peer != 0);
        assert_eq!(lives.newest(0), None);
    }
}
