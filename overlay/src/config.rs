//! What a node is told at its start. Defaults name their source or admit to be
//! a guess.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::planted::Planted;

/// The parameters of one overlay machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Config<I> {
    /// Who this node is.
    pub me: I,
    /// The life of this process: greater than that of any earlier one.
    pub boot: u64,
    /// Whether there was an earlier life, whose rank may yet be found again.
    pub returns: bool,
    /// The seed of all jitter and nonces.
    pub seed: u64,
    /// The parent in the deployment tree; none makes this node a root. It and the
    /// seeds are the node's *contacts*.
    pub parent: Option<I>,
    /// The place to ask for among the parent's children; none means behind them.
    pub slot: Option<u32>,
    /// Other peers that may be alive, for joining and for merging.
    pub seeds: Vec<I>,
    /// In a fully connected system: whom to meet, in the place of a parent.
    pub gather: Option<Gather<I>>,
    /// In an arbitrary graph: the neighbours, in the place of a parent. Not used with `gather`.
    pub survey: Option<Gather<I>>,
    /// Whether this node is a cluster by itself if no contact answers.
    pub alone: bool,
    /// Who ought to be a member. An overlay with more than half of them is the
    /// cluster.
    pub expect: BTreeSet<I>,
    /// Decides between two trees of equal weight; the smaller wins.
    pub priority: u32,
    /// Bounds of the tree.
    pub limits: Limits,
    /// The speeds.
    pub pace: Pace,
    /// A bug to run with, in tests.
    pub planted: Planted,
}

impl<I> Config<I> {
    /// The default parameters for `me`.
    pub fn new(me: I, boot: u64, seed: u64) -> Self {
        Self {
            me,
            boot,
            returns: false,
            seed,
            parent: None,
            slot: None,
            seeds: Vec::new(),
            gather: None,
            survey: None,
            alone: false,
            expect: BTreeSet::new(),
            priority: 100,
            limits: Limits::default(),
            pace: Pace::default(),
            planted: Planted::default(),
        }
    }
}

/// How a node begins that has peers and no parent ([FC]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gather<I> {
    /// In a fully connected system all peers, this node among them, in the order that the
    /// ranks should have; in a graph the neighbours.
    pub peers: Vec<I>,
    /// How long a node waits for a further listed peer, or in a graph for news. Default 1 s
    /// (guess: several round trips and handshakes).
    pub quiet: Duration,
    /// How long it waits in all. Default 10 s (guess: longer than a process takes to start).
    pub latest: Duration,
}

impl<I> Gather<I> {
    /// With the default times.
    pub const fn new(peers: Vec<I>) -> Self {
        Self {
            peers,
            quiet: Duration::from_secs(1),
            latest: Duration::from_secs(10),
        }
    }
}

/// The pause between asking two candidates: well above a round trip and below what a user
/// notices. A guess: a shorter one asks several at once and detaches from all but one, a longer
/// one delays each join behind a dead candidate.
pub(crate) const STAGGER: Duration = Duration::from_millis(100);
/// The longest pause between rounds of asking. A guess: a longer one delays the merge with a
/// contact that has come back by as much, a shorter one keeps lone nodes busy.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5);

/// Bounds of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The most children; a full node redirects to its smallest subtree.
    /// Default 16, a guess.
    pub max_children: u16,
    /// The greatest depth; a node at it accepts nobody. Default 64 (guess).
    pub max_depth: u16,
    /// Rounds of asking everybody before a node that never had a parent becomes its own
    /// root. Default 8: about 20 s, in which the configured parent may start (guess).
    pub starting_rounds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_children: 16,
            max_depth: 64,
            starting_rounds: 8,
        }
    }
}

/// Half beats without a sign of life until a neighbour is suspected and others
/// are asked. 4: beats of others drift, and one lost is nothing. Whoever
/// does not acknowledge a beat within half of one is suspected then.
pub(crate) const SUSPECT_AFTER: u32 = 4;
/// Further half beats until the suspect is taken as down. 2, that is
/// 600 ms; the probe timeout of Serf's LAN profile is 500 ms.
pub(crate) const DOWN_AFTER: u32 = 2;
/// The longest pause between probes of lost contacts. 5 s .
pub(crate) const PROBE_MAX: Duration = Duration::from_secs(5);

/// How fast a node beats, judges and repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The period of the beat to tree and ring neighbours. Default 600 ms: with it a
    /// death is known everywhere within 2 s, counting jitter, the eighth by which an idle
    /// host may be late, one look that does not count because its host was busy, and
    /// a tenth of a second to spread the news; of the order of the probe interval of Serf's LAN profile (1 s).
    pub beat: Duration,
    /// How long what is said of peers is collected before it is passed on.
    /// Default 10 ms (guess: several messages of one death, no visible delay).
    pub share: Duration,
    /// How long a rumour is believed beyond the grace. Default 30 s (guess).
    pub rumour: Duration,
    /// How long a dead member's rank stays vacant before the ranks are
    /// compacted; zero compacts at once. Default 30 s.
    pub grace: Duration,
    /// How long a root waits for members that may yet be counted or find their
    /// ranks again while many are vacant. Default 2 s: longer than a death takes
    /// to be noticed.
    pub regroup: Duration,
    /// How long a root waits for more changes before it names an epoch.
    /// Default 100 ms (guess: several times a round trip, so that one wave of
    /// joins becomes one epoch).
    pub epoch_settle: Duration,
    /// How long a root waits at most. Default 1 s (guess).
    pub epoch_latest: Duration,
    /// The first pause of the repeated rules of ring and fingers; it doubles
    /// up to [`Pace::refresh_max`] while nothing changes. Default 500 ms.
    pub refresh: Duration,
    /// How many times the pause is doubled: 500 ms · 2^7 = 64 s.
    pub refresh_doublings: u32,
    /// The pause between confirming two finger levels. Default 5 s, so that a
    /// corrupted finger is repaired within 5 s · ⌈log2 N⌉: fingers of the living
    /// do not go wrong by themselves.
    pub confirm: Duration,
    /// The first pause between probes of lost contacts. Default 1 s (guess).
    pub probe: Duration,
}

impl Pace {
    /// The longest pause between two repetitions of a quiet rule.
    pub fn refresh_max(&self) -> Duration {
        self.refresh * 2u32.saturating_pow(self.refresh_doublings.min(16))
    }

    /// How long after its death a neighbour is called down, at the latest and but
    /// for jitter: a beat until it is next beaten to, half of one until the answer
    /// is missed, and `down_after` halves. Who is silent for half as long is not
    /// called anything.
    pub fn detection(&self) -> Duration {
        self.beat + self.beat * (1 + DOWN_AFTER) / 2
    }

    /// Five times as fast as the default: for clusters on one switch.
    pub fn fast() -> Self {
        Self {
            beat: Duration::from_millis(120),
            regroup: Duration::from_millis(700),
            epoch_settle: Duration::from_millis(50),
            refresh: Duration::from_millis(200),
            refresh_doublings: 8,
            confirm: Duration::from_secs(1),
            ..Self::default()
        }
    }

    /// A quarter of the default's idle traffic or less: for fleets on slow or
    /// metered links, and for many nodes on few cores. A death is known within 10 s.
    /// While hundreds join, a root waits until they are there: a numbering on the way
    /// makes thousands of links that the next one does without.
    pub fn quiet() -> Self {
        Self {
            beat: Duration::from_millis(3600),
            regroup: Duration::from_secs(12),
            rumour: Duration::from_secs(60),
            epoch_settle: Duration::from_secs(1),
            epoch_latest: Duration::from_secs(20),
            confirm: Duration::from_secs(20),
            refresh_doublings: 8,
            ..Self::default()
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            beat: Duration::from_millis(600),
            share: Duration::from_millis(10),
            rumour: Duration::from_secs(30),
            grace: Duration::from_secs(30),
            regroup: Duration::from_secs(2),
            epoch_settle: Duration::from_millis(100),
            epoch_latest: Duration::from_secs(1),
            refresh: Duration::from_millis(500),
            refresh_doublings: 7,
            confirm: Duration::from_secs(5),
            probe: Duration::from_secs(1),
        }
    }
}

/// However often vacancies come and go, one is not kept for longer than so many
/// times the grace.
pub(crate) const LONGEST: u32 = 4;

/// How many beats certainly outlast `length`.
pub(crate) fn beats(length: Duration, beat: Duration) -> u32 {
    let whole = length.as_millis() / beat.as_millis().max(1);
    u32::try_from(whole).unwrap_or(u32::MAX - 2) + 2
}
