//! The configuration of a node. A default names its source or says that it is a guess.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::planted::Planted;

/// The parameters of one overlay machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Config<I> {
    /// The identity of this node.
    pub me: I,
    /// The boot of this process, the number of its life: greater than that of any earlier process
    /// of the node.
    pub boot: u64,
    /// Whether there was an earlier life, whose rank may be found again.
    pub returns: bool,
    /// The seed of all jitter and of all nonces.
    pub seed: u64,
    /// The parent in the deployment tree; without one this node starts as a root, unless it has
    /// `gather` or `survey`. The parent and the seeds are the node's *contacts*.
    pub parent: Option<I>,
    /// The slot to ask for among the parent's children; none means behind all of them.
    pub slot: Option<u32>,
    /// Other peers that may be alive, for joining and for merging.
    pub seeds: Vec<I>,
    /// In a fully connected system: the peers to meet, instead of a parent.
    pub gather: Option<Gather<I>>,
    /// In an arbitrary graph: the neighbours, instead of a parent. Not used with `gather`.
    pub survey: Option<Gather<I>>,
    /// Whether this node is a cluster by itself if no contact answers.
    pub alone: bool,
    /// The peers that should be members. An overlay with more than half of them is the cluster.
    pub expect: BTreeSet<I>,
    /// Decides between two trees of equal weight: the smaller number wins.
    pub priority: u32,
    /// Bounds of the tree.
    pub limits: TreeLimits,
    /// The speeds of the node.
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
            limits: TreeLimits::default(),
            pace: Pace::default(),
            planted: Planted::default(),
        }
    }
}

/// How a node starts that has a list of peers and no parent ([FC]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Gather<I> {
    /// In a fully connected system all peers, this node among them, in the order that the
    /// ranks should have; in a graph the neighbours.
    pub peers: Vec<I>,
    /// How long a node waits for a further peer to answer, or in a graph the length of a tick.
    /// Default 1 s (guess: several round trips and handshakes).
    pub quiet: Duration,
    /// The longest time that a node meets peers, or in a graph looks for a root; later stages of
    /// the start go by it, too. Default 10 s (guess: longer than a process takes to start).
    pub latest: Duration,
}

impl<I> Gather<I> {
    /// A gathering with the default times.
    pub const fn new(peers: Vec<I>) -> Self {
        Self {
            peers,
            quiet: Duration::from_secs(1),
            latest: Duration::from_secs(10),
        }
    }
}

/// The pause before the next candidate is asked: well above a round trip and below what a user
/// notices. A guess: with a shorter pause a node asks several at once and detaches from all but
/// one, with a longer one each dead candidate delays a join.
pub(crate) const STAGGER: Duration = Duration::from_millis(100);
/// The longest pause between rounds of asking. A guess: a longer pause delays the merge with a
/// contact that has come back, a shorter one keeps lone nodes busy.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(5);

/// Bounds of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TreeLimits {
    /// The most children; a full node redirects to its smallest subtree. Default 16, a guess: more
    /// children cost their parent a beat each, fewer make the tree deeper.
    pub max_children: u16,
    /// The most levels of the tree, the root's included; a node of the last level accepts no
    /// children. Default 64 (guess).
    pub max_depth: u16,
    /// How many rounds a node that never had a place in a tree asks all its candidates before it
    /// becomes its own root. Default 8: about 26 s, in which the configured parent may start
    /// (guess).
    pub starting_rounds: u32,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            max_children: 16,
            max_depth: 64,
            starting_rounds: 8,
        }
    }
}

/// After how many half beats without a sign of life a neighbour is suspected and other peers are
/// asked about it. 4, since the beats of two nodes drift and a single lost beat means nothing. A
/// peer that does not acknowledge a beat within half a beat is suspected at that moment.
pub(crate) const SUSPECT_AFTER: u32 = 4;
/// After how many further half beats the suspect counts as down. 2, that is 600 ms; the probe
/// timeout of Serf's LAN profile is 500 ms.
pub(crate) const DOWN_AFTER: u32 = 2;
/// The longest pause between probes of lost contacts: 5 s, see *Timers* in `docs/protocol.md`.
pub(crate) const PROBE_MAX: Duration = Duration::from_secs(5);

/// How fast a node beats, judges and repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pace {
    /// The period of the beat to tree and ring neighbours. Default 600 ms: with it a death is known
    /// everywhere within 2 s. These 2 s include jitter, the eighth by which an idle host may be
    /// late, one look that does not count because its host was busy, and a tenth of a second to
    /// spread the news. The probe interval of Serf's LAN profile is similar (1 s).
    pub beat: Duration,
    /// How long news about peers is collected before it is passed on. Default 10 ms (guess: several
    /// messages about one death fit in, and the delay is not visible).
    pub share: Duration,
    /// How long a rumour is believed beyond the grace. Default 30 s (guess).
    pub rumour: Duration,
    /// How long the rank of a dead member stays vacant before the ranks are compacted; zero
    /// compacts at once. Default 30 s.
    pub grace: Duration,
    /// While many ranks are vacant: how long a root waits for members that may yet be counted or
    /// find their ranks again. Default 2 s: longer than it takes to notice a death.
    pub regroup: Duration,
    /// How long a root waits for more changes before it names an epoch.
    /// Default 100 ms (guess: several times a round trip, so that one wave of
    /// joins becomes one epoch).
    pub epoch_settle: Duration,
    /// The longest wait of a root for further changes. Default 1 s (guess).
    pub epoch_latest: Duration,
    /// The first pause of the repeated rules of ring and fingers; it doubles
    /// with each repetition while nothing changes. Default 500 ms.
    pub refresh: Duration,
    /// How many times the pause is doubled: 500 ms · 2^7 = 64 s.
    pub refresh_doublings: u32,
    /// The pause from the visit to one finger level until the visit to the next level. Default 5 s,
    /// so that a corrupted finger is repaired within 5 s · ⌈log2 N⌉. Without corruption the fingers
    /// of live members stay right.
    pub confirm: Duration,
    /// The first pause between probes of lost contacts. Default 1 s (guess).
    pub probe: Duration,
}

impl Pace {
    /// The longest time, but for jitter, from the death of a neighbour to the verdict *down*: a
    /// beat until the next beat to it, half a beat until its acknowledgement is missed, and
    /// `DOWN_AFTER` half beats. A peer that is silent for half of that time gets no verdict.
    pub fn detection(&self) -> Duration {
        self.beat + self.beat * (1 + DOWN_AFTER) / 2
    }

    /// Beats and confirms fingers five times as often as the default, and names epochs and repeats
    /// its rules sooner: for clusters on one switch.
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

    /// At most a quarter of the default's idle traffic: for fleets on slow or metered links, and
    /// for many nodes on few cores. A death is known within 10 s. While hundreds of nodes join, a
    /// root waits for further ones for up to 20 s: an early numbering would make thousands of links
    /// that the next one does not need.
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

/// The longest time that a vacancy is kept, as a multiple of the grace, however often vacancies
/// come and go.
pub(crate) const LONGEST: u32 = 4;

/// A number of beats that lasts longer than `length`, unless jitter shortens nearly all of them.
pub(crate) fn beats(length: Duration, beat: Duration) -> u32 {
    let whole = length.as_millis() / beat.as_millis().max(1);
    u32::try_from(whole).unwrap_or(u32::MAX - 2) + 2
}
