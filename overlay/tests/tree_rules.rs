//! Tests of the rules of the tree and the census (`docs/protocol.md`), on the state machine itself.

use std::time::Duration;

use binomesh_overlay::census;
use binomesh_overlay::detector::{self, Rumour};
use binomesh_overlay::overlay::Out;
use binomesh_overlay::tree::{
    Ancestor, AttachRefusal, Claim, Lead, Message as Tree, RootKey, SiblingOrder,
};
use binomesh_overlay::{
    Config, Effect, Epoch, Input, Message, Overlay, Placement, Population, Rank, Timer,
};

/// A node and the effects that it has asked for since the test last drained them.
struct Node {
    overlay: Overlay<u32>,
    out: Out<u32>,
}

impl Node {
    fn new(id: u32, adjust: impl FnOnce(&mut Config<u32>)) -> Self {
        let mut config = Config::new(id, 1, u64::from(id));
        adjust(&mut config);
        let mut node = Self {
            overlay: Overlay::new(config),
            out: Out::new(),
        };
        node.give(Input::Start);
        node
    }

    fn root(id: u32) -> Self {
        Self::new(id, |_| {})
    }

    /// A child of `parent`. The parent is root 0 or a child of root 0.
    fn child(id: u32, parent: u32) -> Self {
        let mut node = Self::new(id, |config| config.parent = Some(parent));
        node.hear(parent, Tree::Lead(lead(&[0, parent], true)));
        node.sent();
        node
    }

    fn give(&mut self, input: Input<u32>) {
        self.overlay.handle(input, &mut self.out);
    }

    fn hear(&mut self, from: u32, message: impl Into<Message<u32>>) {
        let message = message.into();
        self.give(Input::Message { from, message });
    }

    fn fire(&mut self, timer: Timer) {
        let late = Duration::ZERO;
        self.give(Input::Timer { timer, late });
    }

    fn sent(&mut self) -> Vec<(u32, Message<u32>)> {
        let sends = self.out.drain().filter_map(|effect| match effect {
            Effect::Send { to, message } => Some((to, message)),
            _ => None,
        });
        sends.collect()
    }

    /// The tree messages that were sent to `to`. All other messages are dropped.
    fn said(&mut self, to: u32) -> Vec<Tree<u32>> {
        let sent = self.sent().into_iter().filter(|(peer, _)| *peer == to);
        let tree = sent.filter_map(|(_, message)| match message {
            Message::Tree(message) => Some(message),
            _ => None,
        });
        tree.collect()
    }

    fn children(&self) -> Vec<u32> {
        self.overlay.tree().children().collect()
    }
}

fn key(id: u32, weight: u8) -> RootKey<u32> {
    let priority = 100;
    RootKey {
        weight,
        priority,
        id,
    }
}

/// A Lead along `path` (root first; an id that follows itself is dropped).
fn lead(path: &[u32], anchored: bool) -> Lead<u32> {
    let mut path = path.to_vec();
    path.dedup();
    let step = |(depth, id): (usize, &u32)| Ancestor {
        id: *id,
        order: if depth == 0 {
            SiblingOrder::default()
        } else {
            SiblingOrder::slot(3)
        },
    };
    Lead {
        path: path.iter().enumerate().map(step).collect(),
        order: SiblingOrder::slot(2),
        root: key(path[0], 3),
        heirs: [7, 8].into_iter().collect(),
        anchored,
    }
}

fn attach(claim: Claim<u32>) -> Tree<u32> {
    let order = SiblingOrder::default();
    Tree::Attach { claim, order }
}

fn is_lead(message: &Tree<u32>) -> bool {
    matches!(message, Tree::Lead(_))
}

#[test]
fn a_node_without_a_parent_is_a_root() {
    let node = Node::root(0);
    assert!(node.overlay.tree().is_root());
}

#[test]
fn a_node_asks_its_configured_parent_for_its_slot() {
    let mut node = Node::new(5, |config| {
        config.parent = Some(1);
        config.slot = Some(4);
    });
    let order = SiblingOrder::deployed(4);
    let claim = Claim::Orphan;
    assert_eq!(node.said(1), [Tree::Attach { claim, order }]);
    assert!(!node.overlay.tree().is_anchored());
}

/// The parent may start later than the node.
#[test]
fn a_parent_is_asked_for_the_slot_in_each_round_until_there_were_enough() {
    let mut node = Node::new(5, |config| {
        config.parent = Some(1);
        config.slot = Some(4);
        config.seeds = vec![2];
        config.limits.starting_rounds = 3;
    });
    let claim = Claim::Orphan;
    for round in 0..3 {
        let order = SiblingOrder::deployed(4);
        assert!(node.overlay.tree().parent().is_none());
        assert_eq!(node.said(1), [Tree::Attach { claim, order }], "{round}");
        node.fire(Timer::Seek);
        assert_eq!(node.said(2), [attach(Claim::Orphan)], "{round}");
        assert!(!node.overlay.tree().is_root(), "{round}");
        node.fire(Timer::Seek);
    }
    assert!(node.overlay.tree().is_root());
}

#[test]
fn an_orphan_accepts_no_children_until_it_is_anchored() {
    let mut node = Node::new(5, |config| config.parent = Some(1));
    node.hear(9, attach(Claim::Orphan));
    assert!(node.children().is_empty());
    node.hear(1, Tree::Lead(lead(&[0, 1], true)));
    assert_eq!(node.children(), [9], "it is remembered");
    assert!(node.said(9).iter().any(is_lead));
}

#[test]
fn only_an_asked_candidate_becomes_the_parent() {
    let mut node = Node::new(5, |config| config.parent = Some(1));
    node.sent();
    node.hear(2, Tree::Lead(lead(&[0, 2], true)));
    assert_eq!(node.said(2), [Tree::Detach]);
    assert_eq!(node.overlay.tree().parent(), None);
}

#[test]
fn an_ancestor_is_refused_as_a_child() {
    let mut node = Node::child(5, 1);
    node.hear(0, attach(Claim::Orphan));
    assert_eq!(node.said(0), [Tree::Refuse(AttachRefusal::Descendant)]);
}

#[test]
fn a_full_node_redirects_to_its_smallest_subtree() {
    let mut node = Node::new(0, |config| config.limits.max_children = 2);
    for (child, size) in [(1, 9), (2, 4)] {
        node.hear(child, attach(Claim::Orphan));
        let size = Population::new(size).unwrap();
        node.hear(
            child,
            census::Message::Size {
                version: 1,
                size,
                standing: None,
                returning: 0,
                evidence: census::Evidence::Unmet,
            },
        );
    }
    node.sent();
    node.hear(3, attach(Claim::Orphan));
    assert_eq!(node.said(3), [Tree::Redirect(2)]);
    assert_eq!(node.children(), [1, 2]);
}

#[test]
fn a_node_at_the_greatest_depth_refuses() {
    let mut node = Node::new(5, |config| {
        config.parent = Some(1);
        config.limits.max_depth = 3;
    });
    node.hear(1, Tree::Lead(lead(&[0, 1], true)));
    node.sent();
    node.hear(9, attach(Claim::Orphan));
    assert_eq!(node.said(9), [Tree::Refuse(AttachRefusal::Depth)]);
}

#[test]
fn an_orphan_asks_the_sender_of_a_probe_for_a_place() {
    let mut node = Node::new(4, |config| config.parent = Some(1));
    node.sent();
    node.hear(9, Tree::Probe(key(8, 1)));
    assert_eq!(node.said(9), [attach(Claim::Orphan)]);
    node.hear(9, Tree::Lead(lead(&[8, 9], true)));
    assert_eq!(node.overlay.tree().parent(), Some(9));
    node.hear(7, Tree::Probe(key(6, 9)));
    assert!(
        !node
            .said(7)
            .iter()
            .any(|m| matches!(m, Tree::Attach { .. }))
    );
}

#[test]
fn a_redirect_is_followed_only_from_an_asked_candidate() {
    let mut node = Node::new(5, |config| config.parent = Some(1));
    node.sent();
    node.hear(9, Tree::Redirect(4));
    assert!(node.said(4).is_empty());
    node.hear(1, Tree::Redirect(4));
    assert_eq!(node.said(4), [attach(Claim::Orphan)]);
}

/// A full node that has lost a child answers this child's Size with a Redirect. A child that
/// ignored the Redirect would stay uncounted for ever.
#[test]
fn a_redirect_from_the_parent_means_not_your_parent() {
    let mut node = Node::child(5, 1);
    node.hear(1, Tree::Redirect(4));
    assert_eq!(node.overlay.tree().parent(), None);
    assert!(!node.overlay.tree().is_anchored());
}

#[test]
fn children_stand_in_the_order_of_their_slots() {
    let mut node = Node::root(0);
    for (child, slot) in [(1, 8), (2, 2), (3, 5)] {
        let (claim, order) = (Claim::Orphan, SiblingOrder::slot(slot));
        node.hear(child, Tree::Attach { claim, order });
    }
    assert_eq!(node.children(), [2, 3, 1]);
}

/// The orphan asks for the place of its former parent, with its own slot below that place.
#[test]
fn an_orphan_asks_the_grandparent_for_its_parents_place() {
    let mut node = Node::child(5, 1);
    node.hear(1, Tree::Leave);
    let order = SiblingOrder::slot(3).joined(&SiblingOrder::slot(2));
    let claim = Claim::Orphan;
    assert_eq!(node.said(0), [Tree::Attach { claim, order }]);
    assert!(!node.overlay.tree().is_anchored());
}

/// The ancestors all stand before the orphan in the ring. The root's heirs may stand behind the
/// orphan, so it does not ask them.
#[test]
fn an_orphan_asks_the_nearest_ancestors_that_live_and_the_root() {
    for (dead, asked) in [(None, vec![5, 4, 3, 0]), (Some(4), vec![5, 3, 2, 0])] {
        let mut node = Node::new(9, |config| config.parent = Some(6));
        node.hear(6, Tree::Lead(lead(&[0, 1, 2, 3, 4, 5, 6], true)));
        let down = dead.map(|peer| Rumour {
            peer,
            boot: 1,
            incarnation: 0,
            mark: None,
            is_up: false,
        });
        node.hear(6, detector::Message::Rumours(down.into_iter().collect()));
        node.sent();
        node.hear(6, Tree::Leave);
        (0..3).for_each(|_| node.fire(Timer::Seek));
        let attached = node.sent().into_iter().filter_map(|(to, message)| {
            matches!(message, Message::Tree(Tree::Attach { .. })).then_some(to)
        });
        assert_eq!(attached.collect::<Vec<_>>(), asked, "{dead:?} is down");
    }
}

#[test]
fn the_first_heir_of_a_dead_root_becomes_root_at_once() {
    let mut node = Node::new(7, |config| config.parent = Some(0));
    node.hear(0, Tree::Lead(lead(&[0], true)));
    node.hear(0, Tree::Leave);
    assert!(node.overlay.tree().is_root());
}

#[test]
fn another_heir_asks_the_first_behind_its_children() {
    let mut node = Node::new(8, |config| config.parent = Some(0));
    node.hear(0, Tree::Lead(lead(&[0], true)));
    node.sent();
    node.hear(0, Tree::Leave);
    let (claim, order) = (Claim::Orphan, SiblingOrder::slot(2).behind());
    assert_eq!(node.said(7), [Tree::Attach { claim, order }]);
}

#[test]
fn on_a_cycle_only_the_smallest_id_drops_its_parent() {
    for (me, drops) in [(5, true), (6, false)] {
        let other = 11 - me;
        let mut node = Node::child(me, 1);
        node.hear(1, Tree::Lead(lead(&[me, other, 1 + 90], true)));
        let mut node_on_cycle = node;
        node_on_cycle.hear(1, Tree::Lead(lead(&[me, other, 91], true)));
        let tree = node_on_cycle.overlay.tree();
        assert_eq!(tree.parent().is_none(), drops, "{me}");
        assert!(!tree.is_anchored(), "{me}");
    }
}

#[test]
fn of_two_trees_the_lighter_yields_whatever_the_ids() {
    let heavy_but_late = key(9, 3);
    let lone = key(0, 0);
    assert!(heavy_but_late.beats(&lone) && !lone.beats(&heavy_but_late));
    let favoured = RootKey {
        priority: 1,
        ..key(9, 3)
    };
    assert!(favoured.beats(&key(0, 3)));
    assert!(key(0, 3).beats(&key(9, 3)));
}

#[test]
fn a_yielding_root_goes_to_the_other_root() {
    let mut node = Node::root(5);
    node.sent();
    node.hear(8, Tree::Probe(key(1, 4)));
    let claim = Claim::Root(key(5, 0));
    assert_eq!(node.said(1), [attach(claim)]);
    assert!(node.overlay.tree().is_root(), "until it is accepted");
}

#[test]
fn a_child_passes_an_offer_up() {
    let mut node = Node::child(5, 1);
    let offer = Tree::Offer {
        root: key(40, 9),
        via: 41,
    };
    node.hear(41, offer.clone());
    assert_eq!(node.said(1), [offer]);
}

#[test]
fn the_acceptor_of_a_root_checks_who_yields() {
    let mut node = Node::root(5);
    node.hear(9, attach(Claim::Root(key(9, 4))));
    assert_eq!(node.said(9), [Tree::Refuse(AttachRefusal::Precedence)]);
    node.hear(9, attach(Claim::Root(key(9, 0))));
    assert_eq!(node.children(), [9]);
}

#[test]
fn a_digest_that_does_not_match_is_asked_about() {
    let mut node = Node::child(5, 1);
    node.hear(1, Tree::Digest(1));
    assert_eq!(node.said(1), [Tree::AskLead]);
    node.hear(2, Tree::Digest(1));
    assert_eq!(node.said(2), [Tree::Detach]);
}

#[test]
fn a_child_that_goes_by_another_lead_is_told_the_right_one() {
    let mut node = Node::root(0);
    node.hear(4, attach(Claim::Orphan));
    let said = node.said(4);
    let Some(Tree::Lead(lead)) = said.last() else {
        panic!("got {said:?}");
    };
    let right = lead.clone();
    node.hear(4, Tree::Check(1));
    assert_eq!(node.said(4), [Tree::Lead(right)]);
    node.hear(5, Tree::Check(1));
    assert_eq!(node.children(), [4, 5], "a stranger's counts as an Attach");
}

#[test]
fn a_size_from_a_stranger_is_an_attach() {
    let mut node = Node::root(0);
    let size = Population::ONE;
    node.hear(
        4,
        census::Message::Size {
            version: 1,
            size,
            standing: None,
            returning: 0,
            evidence: census::Evidence::Unmet,
        },
    );
    assert_eq!(node.children(), [4]);
    assert_eq!(node.overlay.census().size(), Population::new(2).unwrap());
}

/// Counts never rest, for example, on a cycle of corrupted parents: there two counts may chase each
/// other.
#[test]
fn counts_that_never_rest_go_up_after_a_pause() {
    let mut node = Node::child(5, 1);
    node.hear(4, attach(Claim::Orphan));
    let sizes = |node: &mut Node| {
        let sent = node.sent().into_iter().filter(|(to, _)| *to == 1);
        let sizes = sent.filter_map(|(_, message)| match message {
            Message::Census(census::Message::Size { size, .. }) => Some(size.get()),
            _ => None,
        });
        sizes.collect::<Vec<u32>>()
    };
    sizes(&mut node);
    let hear = |node: &mut Node, size: u32| {
        let size = census::Message::Size {
            version: size.into(),
            size: Population::new(size).unwrap(),
            standing: None,
            returning: 0,
            evidence: census::Evidence::Unmet,
        };
        node.hear(4, size);
    };
    for size in 1..=1000 {
        hear(&mut node, size);
    }
    let told = sizes(&mut node);
    assert_eq!(told.first(), Some(&2), "a change goes up at once");
    assert!(told.len() <= 64, "{}", told.len());
    node.fire(Timer::Report);
    assert_eq!(sizes(&mut node), [1001], "the last word");
    node.fire(Timer::Report);
    assert_eq!(sizes(&mut node), [], "has been told");
    hear(&mut node, 6);
    assert_eq!(
        sizes(&mut node),
        [],
        "until the beat all goes after a pause"
    );
    node.give(Input::Heard { peer: 1 });
    node.fire(Timer::Beat);
    assert_eq!(sizes(&mut node), [7], "the timer may be lost");
    hear(&mut node, 7);
    assert_eq!(sizes(&mut node), [8], "and from then on at once again");
}

#[test]
fn a_place_is_taken_from_the_parent_alone() {
    let mut node = Node::child(5, 1);
    // A child repeats its size in full once in twelve beats.
    for _ in 0..12 {
        node.give(Input::Heard { peer: 1 });
        node.fire(Timer::Beat);
    }
    let version = node
        .sent()
        .into_iter()
        .find_map(|(_, message)| match message {
            Message::Census(census::Message::Size { version, .. }) => Some(version),
            _ => None,
        });
    let version = version.expect("a child repeats its size");
    let epoch = Epoch {
        root: 0,
        boot: 1,
        counter: 1,
        nonce: 1,
    };
    let population = Population::new(9).unwrap();
    let placement = Placement {
        epoch,
        population,
        rank: Rank(4),
    };
    let place = census::Message::Place {
        placement,
        version,
        belongs: true,
    };
    node.hear(2, place.clone());
    assert_eq!(node.overlay.placement(), None);
    node.hear(1, place);
    assert_eq!(node.overlay.placement(), Some(placement));
}

#[test]
fn a_late_beat_condemns_nobody() {
    let mut node = Node::child(5, 1);
    let late = Duration::from_secs(3);
    for _ in 0..20 {
        let timer = Timer::Watch;
        node.give(Input::Timer { timer, late });
    }
    assert_eq!(node.overlay.tree().parent(), Some(1));
    for _ in 0..12 {
        node.fire(Timer::Watch);
    }
    assert_eq!(node.overlay.tree().parent(), None, "silence on time does");
}

#[test]
fn a_leaving_node_says_so_and_accepts_nobody() {
    let mut node = Node::child(5, 1);
    node.hear(9, attach(Claim::Orphan));
    node.sent();
    node.give(Input::Leave { proof: None });
    let said: Vec<_> = node.sent();
    let goodbye = |to| (to, Message::Tree(Tree::Leave));
    assert!(said.contains(&goodbye(1)) && said.contains(&goodbye(9)));
    node.hear(10, attach(Claim::Orphan));
    assert_eq!(node.said(10), [Tree::Refuse(AttachRefusal::Leaving)]);
}
