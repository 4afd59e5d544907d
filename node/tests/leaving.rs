//! Leaving is not failing: goodbyes of whole peers, in the seeded world.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh::peer::{Event, Input};
use binomesh::world::{DeploymentTree, Fault, Id, Lie, Memory, Network, World};
use binomesh_overlay::Event as OverlayEvent;
use binomesh_routing::packet::{Reason, State};
use binomesh_routing::relay::Due;
use binomesh_routing::{self as routing, Destination, PacketId, Publish, PublishError, Receipt};
use binomesh_routing::{Topic, strategy::Strategy};
use bytes::Bytes;
use rand::seq::index;

/// The events so far, by their kind.
#[derive(Default)]
struct Books {
    receipts: BTreeMap<PacketId<Id>, (Duration, Receipt<Id>)>,
    delivered: BTreeMap<PacketId<Id>, BTreeSet<(Id, u64)>>,
    /// Pairs of a node and a peer whose goodbye the node has heard.
    left: BTreeSet<(Id, Id)>,
    down: BTreeSet<(Id, Id)>,
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn formed(seed: u64, count: u32, shape: DeploymentTree) -> World {
    let mut world = World::new(seed, Network::local());
    world.deploy(count, shape, |_| {});
    settle(&mut world);
    world.run_for(seconds(5));
    world.take_events();
    world
}

#[track_caller]
fn settle(world: &mut World) {
    let settled = world.run_until(world.now() + seconds(90), |w| w.defect().is_none());
    let (seed, defect) = (world.seed(), world.defect());
    assert!(settled, "seed {seed}: {defect:?}");
}

impl Books {
    fn note(&mut self, world: &mut World) {
        for told in world.take_events() {
            match told.event {
                Event::Relay(routing::Event::Receipt(receipt)) => {
                    self.receipts.insert(receipt.id, (told.at, *receipt));
                }
                Event::Relay(routing::Event::Deliver(delivery)) => {
                    let by = (told.by, told.boot);
                    for (id, ..) in delivery.messages() {
                        self.delivered.entry(id).or_default().insert(by);
                    }
                }
                Event::Overlay(OverlayEvent::Left { peer, .. }) => {
                    self.left.insert((told.by, peer));
                }
                Event::Overlay(OverlayEvent::Down(peer)) => {
                    self.down.insert((told.by, peer));
                }
                _ => {}
            }
        }
    }

    /// The receipt of a message, and the time from now until it came.
    #[track_caller]
    fn receipt(&mut self, world: &mut World, id: PacketId<Id>) -> (Duration, Receipt<Id>) {
        let start = world.now();
        while !self.receipts.contains_key(&id) && world.now() < start + seconds(90) {
            world.run_for(Duration::from_millis(5));
            self.note(world);
        }
        let (at, receipt) = &self.receipts[&id];
        (at.saturating_sub(start), receipt.clone())
    }

    /// Wait until every running node has recorded the goodbye of each member in `gone`.
    #[track_caller]
    fn wait_for_goodbyes(&mut self, world: &mut World, gone: &[Id]) -> Duration {
        let start = world.now();
        let everywhere = |world: &World, books: &Self| {
            let mut up = world.peers().map(|(id, _)| id);
            up.all(|id| gone.iter().all(|gone| books.left.contains(&(id, *gone))))
        };
        while !everywhere(world, self) && world.now() < start + seconds(30) {
            world.run_for(Duration::from_millis(5));
            self.note(world);
        }
        assert!(everywhere(world, self), "seed {}", world.seed());
        world.now() - start
    }
}

fn broadcast(
    world: &mut World,
    from: Id,
    due: Due<Id>,
    destination: Destination<Id>,
) -> Result<PacketId<Id>, PublishError<Id>> {
    let publish = Publish {
        topic: Topic::new("leaving").unwrap(),
        payloads: Bytes::from_static(b"x").into(),
        destination,
        strategy: Strategy::default(),
        due,
        confirmation: Default::default(),
        is_ordered: false,
    };
    world
        .with_peer(from, |peer, out| peer.publish(publish, out))
        .expect("it is up")
}

fn to_all(world: &mut World, from: Id) -> PacketId<Id> {
    broadcast(world, from, Due::Settled, Destination::All).unwrap()
}

/// The nodes that are up.
fn up(world: &World) -> Vec<Id> {
    world.peers().map(|(id, _)| id).collect()
}

/// Lets all nodes in `gone` leave at the same moment, and waits until they are down.
fn leave(world: &mut World, gone: &[Id]) {
    gone.iter().for_each(|id| world.leave(*id, seconds(1)));
    let is_over = |w: &World| gone.iter().all(|id| !w.is_up(*id));
    assert!(world.run_until(world.now() + seconds(3), is_over));
}

/// The root, inner nodes and leaves leave, one or several at once. Every other node hears the
/// goodbyes. The destinations of later broadcasts do not include the members that have left.
#[test]
fn a_broadcast_after_a_goodbye_is_complete_within_a_second() {
    for (count, seed) in [2, 3, 5, 12, 24]
        .into_iter()
        .flat_map(|n| (0..8).map(move |s| (n, s)))
    {
        let shape = DeploymentTree::ALL[seed as usize % DeploymentTree::ALL.len()];
        let mut world = formed(seed, count, shape);
        let mut books = Books::default();
        let most = (count - 1).min(4);
        let several = (seed as u32 % most + 1) as usize;
        let gone: Vec<Id> = match seed {
            0 => vec![0],
            _ => {
                let drawn = index::sample(world.rng(), count as usize, several);
                drawn.into_iter().map(|id| id as Id).collect()
            }
        };
        leave(&mut world, &gone);
        let spread = books.wait_for_goodbyes(&mut world, &gone);
        assert!(spread < seconds(1), "{count}, seed {seed}: {spread:?}");
        for _ in 0..2 {
            for from in up(&world) {
                let id = to_all(&mut world, from);
                let (took, receipt) = books.receipt(&mut world, id);
                assert!(took < seconds(1), "{count}, seed {seed}: {took:?}");
                assert!(receipt.is_complete(), "{count}, seed {seed}: {receipt:?}");
                let others = count as usize - gone.len() - 1;
                let lines = (receipt.expected_count, receipt.reached_count);
                assert_eq!(
                    lines,
                    (others as u32, others as u32),
                    "{count}, seed {seed}"
                );
                assert_eq!(books.delivered.get(&id).map_or(0, BTreeSet::len), others);
            }
            // Ranks may be compacted meanwhile.
            world.run_for(seconds(4));
            settle(&mut world);
        }
        // The goodbye came first, so no node took the leave for a death.
        let called_down = books.down.iter().any(|(_, peer)| gone.contains(peer));
        assert!(!called_down, "{count}, seed {seed}: {:?}", books.down);
    }
}

/// One broadcast is accepted while the member drains, and one an instant before the member leaves.
/// Both end within a second of the goodbye. The line of the member is unconfirmed and never
/// refused.
#[test]
fn a_broadcast_before_a_goodbye_ends_within_a_second_of_it() {
    for (count, seed) in [2, 3, 9, 24]
        .into_iter()
        .flat_map(|n| (0..8).map(move |s| (n, s)))
    {
        let mut world = formed(seed, count, DeploymentTree::Binomial);
        let mut books = Books::default();
        let gone = seed as Id % count;
        let from = (gone + 1) % count;
        world.feed(gone, Input::Drain);
        let refused = to_all(&mut world, from);
        world.run_for(seconds(seed % 3));
        books.note(&mut world);
        assert!(
            books.receipts.is_empty(),
            "{count}, seed {seed}: no last word"
        );
        let late = to_all(&mut world, from);
        leave(&mut world, &[gone]);
        for id in [refused, late] {
            let (took, receipt) = books.receipt(&mut world, id);
            assert!(took < seconds(1), "{count}, seed {seed}: {took:?}");
            let [line] = receipt.unreached[..] else {
                panic!("{count}, seed {seed}: {receipt:?}");
            };
            let said = (line.peer, line.state, line.reason);
            let expected = (Some(gone), State::Unconfirmed, Reason::Left);
            assert_eq!(said, expected, "{count}, seed {seed}");
        }
    }
}

/// In an overlay of more than 8 members the returned member has its old rank. Each receipt counts
/// the member.
#[test]
fn a_member_that_left_and_returns_is_a_destination_again() {
    for (count, seed) in [2, 3, 12]
        .into_iter()
        .flat_map(|n| (0..6).map(move |s| (n, s)))
    {
        let mut world = formed(seed, count, DeploymentTree::Binomial);
        let mut books = Books::default();
        let gone = seed as Id % count;
        let from = (gone + 1) % count;
        let before = world.placements();
        leave(&mut world, &[gone]);
        books.wait_for_goodbyes(&mut world, &[gone]);
        // The first broadcast is kept for the next life, which begins within the grace.
        let (time, awaited) = (seconds(60), Vec::new());
        let kept = Due::Kept { time, awaited };
        let kept = broadcast(&mut world, from, kept, Destination::All).unwrap();
        let to_it = broadcast(
            &mut world,
            from,
            Due::Settled,
            Destination::Peers(vec![gone]),
        );
        assert_eq!(
            to_it,
            Err(PublishError::HasLeft(gone)),
            "{count}, seed {seed}"
        );
        world.run_for(seconds(1));
        world.restart_with(gone, Memory::Boot);
        settle(&mut world);
        world.run_for(seconds(1));
        if count > 8 {
            // In a smaller overlay more than an eighth of the ranks was vacant, so the ranks may
            // have moved.
            assert_eq!(world.placements(), before, "{count}, seed {seed}");
        }
        let id = to_all(&mut world, from);
        for id in [kept, id] {
            let (_, receipt) = books.receipt(&mut world, id);
            assert!(receipt.is_complete(), "{count}, seed {seed}: {receipt:?}");
            assert_eq!(receipt.reached_count, count - 1, "{count}, seed {seed}");
            let boot = world.boot(gone);
            assert!(
                books.delivered[&id].contains(&(gone, boot)),
                "{count}, seed {seed}"
            );
        }
        let mut all = world.peers();
        assert!(all.all(|(_, peer)| peer.overlay().left().next().is_none()));
    }
}

/// The last node is alone, and knows that no other node has failed.
#[test]
fn all_others_may_leave() {
    for (count, seed) in [2, 3, 6]
        .into_iter()
        .flat_map(|n| (0..4).map(move |s| (n, s)))
    {
        let mut world = formed(seed, count, DeploymentTree::Chain);
        let mut books = Books::default();
        let last = seed as Id % count;
        let others: Vec<Id> = (0..count).filter(|id| *id != last).collect();
        for gone in &others {
            leave(&mut world, &[*gone]);
            world.run_for(Duration::from_millis(200));
        }
        books.note(&mut world);
        let id = to_all(&mut world, last);
        let (took, receipt) = books.receipt(&mut world, id);
        assert!(took < seconds(1), "{count}, seed {seed}: {took:?}");
        assert_eq!((receipt.expected_count, receipt.is_complete()), (0, true));
        settle(&mut world);
        let left: Vec<Id> = world.peer(last).unwrap().overlay().left().collect();
        assert_eq!(left, others, "{count}, seed {seed}");
    }
}

/// A member that was stopped or cut off during the leave hears the goodbye afterwards.
#[test]
fn a_member_that_missed_a_goodbye_hears_it_later() {
    for seed in 0..6 {
        let mut world = formed(seed, 12, DeploymentTree::Binomial);
        let mut books = Books::default();
        let (gone, missing) = (5, 7);
        if seed % 2 == 0 {
            world.pause(missing, seconds(3));
        } else {
            let others = (0..12).filter(|id| *id != missing).collect();
            let groups = vec![vec![missing], others];
            world.act(&Fault::Partition { groups, ms: 20_000 }, |_| {});
        }
        leave(&mut world, &[gone]);
        world.run_for(seconds(25));
        settle(&mut world);
        books.wait_for_goodbyes(&mut world, &[gone]);
        let id = to_all(&mut world, missing);
        let (_, receipt) = books.receipt(&mut world, id);
        assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
    }
}

/// A restarted member hears the goodbye over its first link, before it has a place.
#[test]
fn a_member_that_was_started_again_since_knows_which_members_have_left() {
    for seed in 0..8 {
        let mut world = formed(seed, 16, DeploymentTree::Binomial);
        let mut books = Books::default();
        let (gone, again) = (5, seed as Id % 5);
        leave(&mut world, &[gone]);
        books.wait_for_goodbyes(&mut world, &[gone]);
        world.run_for(seconds(1));
        books = Books::default();
        world.restart(again);
        settle(&mut world);
        books.note(&mut world);
        assert!(books.left.contains(&(again, gone)), "seed {seed}");
        world.run_for(seconds(1));
        let id = to_all(&mut world, again);
        let (took, receipt) = books.receipt(&mut world, id);
        assert!(took < seconds(1), "seed {seed}: {took:?}");
        assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
        assert_eq!(receipt.expected_count, 14, "seed {seed}");
    }
}

/// A lying member cannot say goodbye in the name of another.
#[test]
fn a_forged_goodbye_is_only_a_rumour() {
    for seed in 0..12 {
        let mut world = formed(seed, 8, DeploymentTree::Binomial);
        let mut books = Books::default();
        let (node, lie) = (seed as Id % 8, Lie::Goodbyes);
        let ms = 20_000;
        world.act(
            &Fault::Lie {
                node,
                lie,
                ms,
                seed,
            },
            |_| {},
        );
        world.run_for(seconds(25));
        books.note(&mut world);
        assert!(books.left.is_empty(), "seed {seed}: {:?}", books.left);
        settle(&mut world);
        world.run_for(seconds(30));
        let id = to_all(&mut world, (node + 1) % 8);
        let (_, receipt) = books.receipt(&mut world, id);
        assert!(receipt.is_complete(), "seed {seed}: {receipt:?}");
        assert_eq!(receipt.expected_count, 7, "seed {seed}");
    }
}

/// Without a signature a goodbye counts as a death that needs no detection.
#[test]
fn an_unsigned_leave_is_a_rumour_of_a_death() {
    for seed in 0..6 {
        let mut world = formed(seed, 8, DeploymentTree::Binomial);
        let mut books = Books::default();
        let gone = seed as Id;
        world.feed(gone, Input::Leave { proof: None });
        world.crash(gone);
        world.run_for(seconds(1));
        books.note(&mut world);
        assert!(books.left.is_empty(), "seed {seed}");
        let witnesses = books.down.iter().filter(|(_, peer)| *peer == gone);
        assert_eq!(witnesses.count(), 7, "seed {seed}");
    }
}
