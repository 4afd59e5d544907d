//! A node of an arbitrary graph until it has its place in the tree.
//!
//! ```text
//!   start ──▶ links to the listed neighbours ──▶ spanning tree ──▶ root, or child of its parent
//!                        └── one of them is a member ──▶ child of that one, or of its subtree
//! ```
//!
//! [`Gather::quiet`] is the tick of the survey. A node tells its neighbours its *claim*: the best
//! root that it knows, and its path to that root. After [`Gather::latest`] it asks the neighbour on
//! that path for a place, even if that neighbour has no place itself yet. It keeps its links for
//! the same time once more: other nodes go by its claim, which would end with the link. Several
//! trees become one by probing and merging.
//!
//! Not here: the choice of the tree ([`spanning`]).

use super::{Moved, Out, Overlay, Timer};
use crate::Id;
use crate::config::Gather;
use crate::spanning::{self, Input, Outcome, Spanning};

/// How many ancestors a node remembers, from the root on. They lead back to the tree if the node's
/// parent does not.
const REMEMBERED: usize = 3;

/// The survey of one node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Survey<I> {
    gather: Gather<I>,
    spanning: Spanning<I>,
    /// Whether this node has begun to enter the tree.
    is_over: bool,
    /// Whether this node has told its neighbours about its place.
    has_told: bool,
}

impl<I: Id> Survey<I> {
    pub(super) fn new(me: I, gather: Gather<I>) -> Self {
        Self {
            spanning: Spanning::new(me, gather.peers.iter().copied()),
            is_over: false,
            has_told: false,
            gather,
        }
    }

    /// The peers that this node needs links to during the survey.
    pub(super) fn links(&self) -> impl Iterator<Item = I> + '_ {
        let listed = self.gather.peers.iter().copied();
        listed.chain(self.spanning.neighbours())
    }

    /// How many neighbours this node has.
    pub(super) fn length(&self) -> usize {
        self.spanning.neighbours().len()
    }

    /// How many roots this node has followed since the last tick.
    pub(super) fn roots(&self) -> usize {
        self.spanning.roots()
    }

    /// How much of its budget for claims this node has used since the last tick.
    pub(super) fn claims_spent(&self) -> usize {
        self.spanning.spent()
    }
}

impl<I: Id> Overlay<I> {
    /// Start to look for a path to the root.
    pub(super) fn start_survey(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        let Some(survey) = &self.survey else {
            return;
        };
        self.tree.hold();
        out.arm(Timer::GatherQuiet, survey.gather.quiet);
        out.arm(Timer::GatherLatest, survey.gather.latest);
        moved.links = true;
    }

    /// A link to a peer is up.
    pub(super) fn on_neighbour(&mut self, peer: I, moved: &mut Moved, out: &mut Out<I>) {
        self.survey_with(Input::Met(peer), moved, out);
    }

    /// A link to a peer is down.
    pub(super) fn on_neighbour_lost(&mut self, peer: I, moved: &mut Moved, out: &mut Out<I>) {
        self.survey_with(Input::Lost(peer), moved, out);
    }

    /// A message of the survey.
    pub(super) fn on_spanning(
        &mut self,
        from: I,
        message: spanning::Message<I>,
        moved: &mut Moved,
        out: &mut Out<I>,
    ) {
        let survey = self.survey.as_ref().filter(|survey| !survey.is_over);
        match (message, survey) {
            (spanning::Message::Claim(claim), Some(_)) => {
                self.survey_with(Input::Claim { from, claim }, moved, out);
            }
            // A node that waits for its own place must not offer one: others would follow it in a
            // circle.
            (spanning::Message::Claim(_), None) if self.tree.is_anchored() => {
                out.send(from, spanning::Message::Placed);
            }
            // This node waits for its place. Its neighbours must not take it for silent meanwhile.
            (spanning::Message::Claim(_), None) if self.survey.is_some() => {
                let told = self.survey.as_ref().map(|survey| survey.spanning.claim());
                if let Some(told) = told.cloned() {
                    out.send(from, spanning::Message::Claim(told));
                }
            }
            (spanning::Message::Placed, Some(_)) => {
                self.survey_with(Input::Placed(from), moved, out);
            }
            _ => {}
        }
    }

    /// Tell the neighbours, once, that this node has its place.
    pub(super) fn tell_place(&mut self, out: &mut Out<I>) {
        let is_anchored = self.tree.is_anchored();
        let is_news = |survey: &&mut Survey<I>| survey.is_over && !survey.has_told && is_anchored;
        if let Some(survey) = self.survey.as_mut().filter(is_news) {
            survey.has_told = true;
            for peer in survey.spanning.neighbours() {
                out.send(peer, spanning::Message::Placed);
            }
        }
    }

    /// A tick of the survey has passed.
    pub(super) fn on_survey_quiet(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        self.survey_with(Input::Tick, moved, out);
        if let Some(survey) = self.survey.as_ref().filter(|survey| !survey.is_over) {
            out.arm(Timer::GatherQuiet, survey.gather.quiet);
        }
    }

    /// The time of the survey is over: go where the best claim leads. If this node has gone there
    /// already, no other node goes by its claim any more, and the survey ends.
    pub(super) fn on_survey_latest(&mut self, moved: &mut Moved, out: &mut Out<I>) {
        match &self.survey {
            Some(survey) if survey.is_over => {
                self.survey = None;
                moved.links = true;
            }
            Some(survey) => {
                let me = self.config.me;
                let smaller = survey.spanning.neighbours().filter(|peer| *peer < me);
                let before = u32::try_from(smaller.count()).unwrap_or(u32::MAX);
                let ancestors = survey.spanning.ancestors().to_vec();
                // Possibly no ancestor has a place. Then a node becomes a root the sooner, the
                // fewer of its neighbours have smaller identifiers.
                self.tree.wait_at_most(before.saturating_add(3));
                self.follow(&ancestors, moved, out);
            }
            None => {}
        }
    }

    fn survey_with(&mut self, input: Input<I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(survey) = self.survey.as_mut().filter(|survey| !survey.is_over) else {
            return;
        };
        let before = survey.length();
        let outcome = survey.spanning.handle(input, out);
        moved.links |= survey.length() != before;
        match outcome {
            Outcome::Nothing => {}
            Outcome::Formed(ancestors) => self.follow(&ancestors, moved, out),
        }
    }

    fn follow(&mut self, ancestors: &[I], moved: &mut Moved, out: &mut Out<I>) {
        for peer in ancestors.iter().take(REMEMBERED) {
            self.remember(*peer);
        }
        let parent = self.parent_among(ancestors);
        self.end_survey(parent, moved, out);
    }

    /// The nearest ancestor; if the node would be too deep below it, an ancestor in the upper half
    /// of the deepest path that may be. Nodes that would be too deep are spread over that half.
    fn parent_among(&self, ancestors: &[I]) -> Option<I> {
        let depth = ancestors.len();
        let deepest = usize::from(self.config.limits.max_depth).saturating_sub(1);
        match depth > deepest {
            true => ancestors.get(depth % (deepest / 2).max(1)).copied(),
            false => ancestors.last().copied(),
        }
    }

    fn end_survey(&mut self, parent: Option<I>, moved: &mut Moved, out: &mut Out<I>) {
        let Some(survey) = &mut self.survey else {
            return;
        };
        survey.is_over = true;
        out.disarm(Timer::GatherQuiet);
        out.arm(Timer::GatherLatest, survey.gather.latest);
        self.start_tree(parent, moved, out);
    }
}
