//! Lateness: how far a node is behind with its own work, and how this protects other nodes.
//!
//! A node with late timers handles answers even later: a question waits in the queues of the
//! process before it goes out, and the answer before it is read. So a node is more patient with
//! others the later it is itself. The patience has a limit: on a host that is always busy dead
//! peers are found too.

use std::time::Duration;

use crate::noise::Noise;

/// Of a late node, one in this many looks (at the silence of neighbours) and judgements (of accused
/// peers) counts.
const SPARED: u32 = 4;
/// A node is late if its timers are late by this fraction of a beat: one part in 32. A question and
/// its answer pass through about six queues, and have about a quarter of a beat in all.
const LATE: u32 = 32;
/// The least lateness that counts: a healthy host has this much noise.
const NOISE: Duration = Duration::from_millis(10);

/// The lateness of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Lateness {
    /// The greatest recent lateness, halved at every look.
    most: Duration,
    looks: u32,
    judgements: u32,
}

impl Lateness {
    /// A timer has fired this much later than asked for.
    pub(super) fn note(&mut self, late: Duration) {
        self.most = self.most.max(late);
    }

    /// Whether this look at silence counts, after the node's own timer was `late`.
    pub(super) fn counts_look(&mut self, late: Duration, beat: Duration) -> bool {
        let is_late = self.is_late(beat);
        // After corruption or a pause the lateness is over in four beats.
        self.most = self.most.min(beat) / 2;
        self.looks = self.looks.wrapping_add(1);
        late < beat / 4 && (!is_late || self.looks.is_multiple_of(SPARED))
    }

    /// Whether this judgement of the accused peers counts.
    pub(super) fn counts_judgement(&mut self, beat: Duration) -> bool {
        self.judgements = self.judgements.wrapping_add(1);
        !self.is_late(beat) || self.judgements.is_multiple_of(SPARED)
    }

    fn is_late(&self, beat: Duration) -> bool {
        self.most >= (beat / LATE).max(NOISE)
    }

    /// Arbitrary lateness, as a transient fault may leave it.
    pub(super) fn scrambled(noise: &mut Noise) -> Self {
        Self {
            most: Duration::from_millis(noise.next()),
            looks: noise.next() as u32,
            judgements: noise.next() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(600);

    #[test]
    fn a_quarter_of_a_late_nodes_observations_counts() {
        let mut own = Lateness::default();
        let mut counted = |late| {
            let late = Duration::from_millis(late);
            let looks = (0..40).filter(|_| {
                own.note(late);
                own.counts_look(late, BEAT)
            });
            let looks = looks.count();
            let judged = (0..40).filter(|_| {
                own.note(late);
                own.counts_judgement(BEAT)
            });
            (looks, judged.count())
        };
        assert_eq!(counted(9), (40, 40), "noise");
        assert_eq!(counted(60), (10, 10));
        assert_eq!(counted(150), (0, 10), "a look comes again at once");
    }

    #[test]
    fn lateness_is_forgotten_within_four_beats() {
        let mut own = Lateness::default();
        own.note(Duration::MAX);
        let calm = (0..7).map(|_| own.counts_look(Duration::ZERO, BEAT));
        assert!(calm.last() == Some(true) && !own.is_late(BEAT));
    }
}
