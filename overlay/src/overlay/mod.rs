//! The overlay machine of one node: it owns the layers, hands each message to its layer, and tells
//! the other layers what changed.
//!
//! ```text
//!   message / timer ─▶ layer ─▶ Moved ─▶ settle: family → count → epoch
//!                                          └──▶ ring ──▶ fingers → links, watch
//! ```
//!
//! Not here: the rules of the layers, user messages, addresses.

mod acquaintances;
mod gathering;
mod island;
mod lateness;
mod messages;
mod propagation;
mod relay;
mod reports;
mod rounds;
mod scramble;
mod sizes;
mod status;
mod survey;
mod vacancy;

use std::collections::{BTreeMap, BTreeSet};

pub use crate::seam::{Event, Health, Input, Out, Timer};
use acquaintances::Acquaintances;
pub use acquaintances::MAX_ACQUAINTANCES;
use gathering::Gathering;
use island::Shore;
pub use island::{Island, MAX_LOST_MEMBERS};
use lateness::Lateness;
use reports::Reports;
pub use scramble::garbage;
pub use sizes::Size;
use survey::Survey;

use crate::backoff::Backoff;
use crate::census::{Census, Need};
use crate::config::Config;
use crate::detector::{Detector, Links};
use crate::fingers::{self, Fingers};
use crate::noise::Noise;
use crate::ring::Ring;
use crate::stamp::{Mark, Stamp};
use crate::tree::{Surroundings, Tree};
use crate::{Id, Placement};
use vacancy::Vacancy;

/// How many peers' boots (the number of a life of a process) a node remembers. Above this number it
/// keeps only the boots of peers that it claims a link to.
const MAX_BOOTS: usize = 1024;

/// The fingers of a member that has a place in an epoch.
pub type PlacedFingers<I> = Fingers<I, Placement<I>>;

/// A finger message and its sender.
type EarlyFinger<I> = (I, fingers::Message<I, Mark<I>>);

/// The overlay machine of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Overlay<I: Id> {
    config: Config<I>,
    noise: Noise,
    tree: Tree<I>,
    census: Census<I>,
    detector: Detector<I>,
    ring: Ring<I>,
    /// For each child the leaf that its last Info named. [BMG09] Alg. 1, rule 4 is applied to it
    /// again when the parent or the children change, without waiting for the leaf to repeat itself.
    infos: BTreeMap<I, I>,
    /// The places of the ring neighbours, as each last stated its own.
    marks: BTreeMap<I, Mark<I>>,
    current: Option<PlacedFingers<I>>,
    previous: Option<PlacedFingers<I>>,
    /// Finger messages of other epochs, which may yet reach this node, in their slots: bounded by
    /// kinds × levels.
    early: BTreeMap<(u8, u8), EarlyFinger<I>>,
    refresh: Backoff,
    /// The finger level that was visited last; [`Timer::Confirm`] goes on with the next.
    visiting: usize,
    /// How many visits to finger levels there were in all.
    visits: u32,
    /// How many epochs this node has named.
    epochs: u64,
    epoch_pending: bool,
    /// How many beats have passed, plus a random start, so that nodes do not repeat their states
    /// together.
    beats: u32,
    vacancy: Vacancy,
    /// For how many beats this node has had no rank in the numbering in force, or one that does not
    /// suit its place in the tree.
    placeless_beats: u32,
    reports: Reports<I>,
    /// The ring predecessor and successor that the owner was last told.
    linked: (Option<I>, Option<I>),
    /// For how many beats an epoch has been due.
    overdue_beats: u32,
    /// For how many beats the parent has told this node neither its place nor the numbering in
    /// force.
    parentless_beats: u32,
    /// Peers to probe, since they may be in another tree; the latest last, at most
    /// [`rounds::MAX_LOST`].
    lost: Vec<I>,
    acquaintances: Acquaintances<I>,
    next_probe: usize,
    /// How many rounds of probes there were since a neighbour was lost last.
    probes: u32,
    /// Whether a neighbour was lost within the last `rounds::PROBES_PER_SEED` rounds of probes.
    has_lost: bool,
    /// The root that was lately found gone, and for how many more beats that matters.
    fallen: Option<(I, u32)>,
    /// The last known boot of each peer that this node has a link to, or had one.
    boots: BTreeMap<I, u64>,
    /// Peers in `boots` whose link is down, or brings no messages from them.
    unlinked: BTreeSet<I>,
    /// The peers that this node *claims* a link to: its host has to keep one open.
    claimed: BTreeSet<I>,
    /// The peers that this node cannot reach, each with the peer that carries messages to it. This
    /// node claims links to all unreached peers.
    relayed: BTreeMap<I, I>,
    /// For each silent neighbour the peer that last said that the neighbour is alive.
    vouchers: BTreeMap<I, I>,
    lateness: Lateness,
    shore: Shore<I>,
    /// The gathering of a fully connected system, until a little after this node has its place.
    gathering: Option<Gathering<I>>,
    /// The survey of an arbitrary graph, until a little after this node has its place.
    survey: Option<Survey<I>>,
    /// The listed peers that this node never had a link to.
    unmet: BTreeSet<I>,
}

/// The changes by an input; `settle` carries them to the other layers.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    /// The parent or the children.
    family: bool,
    /// The parent sent its Lead (this node's place in the tree), whether that is news or not. The
    /// parent may have taken this node in again, after a pause that this node has not noticed. Then
    /// the parent has forgotten this node's Info.
    lead: bool,
    /// The report of a child, or this node's knowledge of its contacts; also set at every beat.
    count: bool,
    /// The predecessor or the successor.
    ring: bool,
    /// The place that a ring neighbour states.
    marks: bool,
    /// This node's placement.
    place: bool,
    /// A finger of the current epoch.
    fingers: bool,
    /// The links that this node needs.
    links: bool,
}

impl<I: Id> Overlay<I> {
    /// The machine of a node that has not started yet.
    pub fn new(config: Config<I>) -> Self {
        let mut noise = Noise::new(config.seed);
        let version = noise.next();
        let phase = noise.next() as u16;
        let gather = config.gather.clone();
        let gathering = gather.map(|gather| Gathering::new(config.me, gather, &mut noise));
        let survey = config.survey.clone().filter(|_| config.gather.is_none());
        let survey = survey.map(|gather| Survey::new(config.me, gather));
        let lists = config.gather.iter().chain(&config.survey);
        let listed = lists.flat_map(|gather| &gather.peers);
        let unmet = listed.copied().filter(|peer| *peer != config.me).collect();
        Self {
            gathering,
            survey,
            unmet,
            tree: Tree::new(config.me, config.limits, config.priority, config.slot),
            census: Census::new(version, config.returns),
            detector: Detector::new(&config),
            ring: Ring::default(),
            infos: BTreeMap::new(),
            marks: BTreeMap::new(),
            current: None,
            previous: None,
            early: BTreeMap::new(),
            refresh: Backoff::new(phase),
            visiting: 0,
            visits: 0,
            epochs: 0,
            epoch_pending: false,
            beats: phase.into(),
            vacancy: Vacancy::default(),
            placeless_beats: 0,
            reports: Reports::new(),
            linked: (None, None),
            overdue_beats: 0,
            parentless_beats: 0,
            lost: Vec::new(),
            acquaintances: Acquaintances::new(),
            next_probe: 0,
            probes: 0,
            has_lost: false,
            fallen: None,
            boots: BTreeMap::new(),
            unlinked: BTreeSet::new(),
            claimed: BTreeSet::new(),
            relayed: BTreeMap::new(),
            vouchers: BTreeMap::new(),
            lateness: Lateness::default(),
            shore: Shore::new(),
            noise,
            config,
        }
    }

    /// Handle one input; the effects for the host go to `out`.
    pub fn handle(&mut self, input: Input<I>, out: &mut Out<I>) {
        let mut moved = Moved::default();
        let was_root = self.tree.is_root();
        if let Input::Timer { late, .. } = &input {
            self.lateness.note(*late);
        }
        match input {
            Input::Start => self.on_start(&mut moved, out),
            Input::Message { from, message } if from != self.config.me => {
                self.on_message(from, message, &mut moved, out);
            }
            Input::Message { .. } => {}
            Input::Heard { peer } => self.on_heard(peer, out),
            Input::Acknowledged { peer } => self.detector.on_acknowledged(peer),
            Input::Timer { timer, late } => match timer {
                Timer::Seek => moved.family |= self.with_tree(out, Tree::on_seek_timer),
                Timer::Beat => {
                    self.forget_strangers();
                    self.look(late, &mut moved, out);
                    self.on_beat(late, &mut moved, out);
                }
                Timer::Watch => self.look(late, &mut moved, out),
                Timer::Judge => self.judge(&mut moved, out),
                Timer::Share => {
                    let links = Links {
                        boots: &self.boots,
                        claimed: &self.claimed,
                    };
                    self.detector.on_share_timer(&links, out);
                }
                Timer::Report => self.on_report_timer(out),
                Timer::GatherQuiet => {
                    self.on_gather_quiet(&mut moved, out);
                    self.on_survey_quiet(&mut moved, out);
                }
                Timer::GatherLatest => {
                    self.on_gather_latest(&mut moved, out);
                    self.on_survey_latest(&mut moved, out);
                }
                Timer::Refresh => self.on_refresh(&mut moved, out),
                Timer::Confirm => self.on_confirm(out),
                Timer::Probe => self.on_probe_timer(out),
                Timer::EpochSettled | Timer::EpochLatest => self.open_epoch(&mut moved, out),
                Timer::Retire => {
                    self.previous = None;
                    moved.links = true;
                }
            },
            Input::LinkUp { peer, boot } => {
                self.unmet.remove(&peer);
                self.tell_list(peer, out);
                self.on_neighbour(peer, &mut moved, out);
                self.on_link_up(peer, boot, &mut moved, out);
            }
            Input::LinkDown { peer } => {
                self.unmeet(peer);
                self.on_neighbour_lost(peer, &mut moved, out);
                self.note_unlinked(peer);
                self.detector.on_link_down(peer);
            }
            Input::Leave { proof } => {
                // The goodbye goes before the tree's `Leave`, which alone would mean *down*.
                if let Some(proof) = proof {
                    let links = Links {
                        boots: &self.boots,
                        claimed: &self.claimed,
                    };
                    self.detector.leave(&proof, &links, out);
                }
                self.tree.leave(out);
            }
        }
        if self.tree.is_root() && !was_root {
            // Other nodes may have become roots at the same time. The present neighbours lead to
            // them, so remember these: the epoch that this root names will give it other ones.
            let contacts = self.contacts();
            contacts.into_iter().for_each(|id| self.remember(id));
        }
        self.tell_place(out);
        self.settle(moved, out);
        self.go_round(out);
    }

    /// Remember some members from all over the ring, [`MAX_ACQUAINTANCES`] at most, and as many
    /// former acquaintances that are no members now.
    pub fn meet(&mut self, some: impl Iterator<Item = I>, is_member: impl Fn(I) -> bool) {
        let me = self.config.me;
        self.acquaintances
            .meet(some.filter(|id| *id != me), is_member);
    }

    fn on_start(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match (&self.gathering, &self.survey) {
            (Some(_), _) => self.start_gathering(moved, out),
            (None, Some(_)) => self.start_survey(moved, out),
            (None, None) => self.start_tree(self.config.parent, moved, out),
        }
    }

    /// Start under `parent`, or as a root.
    fn start_tree(&mut self, parent: Option<I>, moved: &mut Moved, out: &mut Out<I>) {
        self.with_tree(out, |tree, around, out| {
            tree.start(parent, around, out);
            true
        });
        moved.family = true;
        let pace = self.config.pace;
        for (timer, after) in [
            (Timer::Beat, pace.beat),
            (Timer::Refresh, pace.refresh),
            (Timer::Confirm, pace.confirm),
            (Timer::Probe, pace.probe),
        ] {
            out.arm(timer, self.noise.jitter(after));
        }
    }

    fn mark(&self) -> Option<Mark<I>> {
        self.placement().map(|placement| placement.ahead(0))
    }

    const fn rules(&self) -> fingers::Rules {
        fingers::Rules {
            forwarding: fingers::Forwarding::Linear,
            planted: self.config.planted,
        }
    }

    /// Run `act` on the tree, with the data that it needs of the other layers.
    fn with_tree(
        &mut self,
        out: &mut Out<I>,
        act: impl FnOnce(&mut Tree<I>, &mut Surroundings<'_, I>, &mut Out<I>) -> bool,
    ) -> bool {
        let contacts = self.contacts();
        let (census, detector) = (&self.census, &self.detector);
        let mut around = Surroundings {
            size_of: &|child| census.size_of(child),
            contacts: &contacts,
            is_down: &|peer| detector.is_down(peer),
            fallen: self.fallen.map(|(root, _)| root),
            noise: &mut self.noise,
            planted: self.config.planted,
        };
        act(&mut self.tree, &mut around, out)
    }
}
