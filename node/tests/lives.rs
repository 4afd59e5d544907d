//! Lives of processes whose boots went back, in the seeded world.

use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{Memory, Network, World};
use binomesh_overlay::Config;
use binomesh_routing::packet::Confirmation;
use binomesh_routing::strategy::Strategy;
use binomesh_routing::{self as routing, Destination, Publish, Topic};
use rand::Rng;

/// The boot of a process whose clock is far ahead. A later life without state has a smaller boot.
const AHEAD: u64 = 1 << 40;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[track_caller]
fn exact(world: &mut World, limit: Duration, case: &str) {
    let end = world.now() + limit;
    let is_exact = world.run_until(end, |w| w.defect_or_vacancy().is_none());
    let defect = world.defect_or_vacancy();
    assert!(is_exact, "{case}: {defect:?}");
}

fn cluster(seed: u64, count: u32) -> World {
    let mut world = World::new(seed, Network::local());
    for id in 0..count {
        let mut config = Config::new(id, AHEAD, world.rng().random());
        config.parent = (id > 0).then(|| (id - 1) / 2);
        world.start(config);
    }
    exact(&mut world, seconds(60), "the beginning");
    world
}

/// Publish a message to all members.
fn published(world: &mut World, from: u32) -> routing::PacketId<u32> {
    let publish = Publish {
        topic: Topic::new("lives").expect("a topic"),
        payloads: bytes::Bytes::from_static(b"heard").into(),
        destination: Destination::All,
        strategy: Strategy::default(),
        due: None.into(),
        confirmation: Confirmation::Relayed,
        is_ordered: false,
    };
    let published = world.with_peer(from, |peer, out| peer.publish(publish, out));
    published.expect("it runs").expect("it is accepted")
}

/// Publish to all. After 5 s the receipt must have come, and must say that all have the message.
#[track_caller]
fn is_heard(world: &mut World, from: u32, case: &str) {
    world.take_events();
    let id = published(world, from);
    world.run_for(seconds(5));
    let receipts = world.take_events().into_iter().filter_map(|told| {
        let Event::Relay(routing::Event::Receipt(receipt)) = told.event else {
            return None;
        };
        (receipt.id == id).then_some(receipt.unreached.is_empty())
    });
    assert_eq!(receipts.collect::<Vec<_>>(), [true], "{case}");
}

/// Clusters of several sizes. The node is the root, an inner node or a leaf.
#[test]
fn a_node_that_lost_its_state_is_back_and_heard() {
    for (count, lost) in [(2, 0), (2, 1), (3, 0), (3, 2), (7, 0), (7, 3), (16, 5)] {
        for noticed in [true, false] {
            let case = format!("{lost} of {count}, noticed {noticed}");
            let mut world = cluster(count.into(), count);
            is_heard(&mut world, lost, &case);
            match noticed {
                true => world.crash_noticed(lost),
                false => world.crash(lost),
            }
            world.run_for(seconds(8));
            world.restart_with(lost, Memory::Lost);
            assert!(world.boot(lost) < AHEAD, "{case}");
            exact(&mut world, seconds(60), &case);
            assert!(world.boot(lost) > AHEAD, "{case}: {}", world.boot(lost));
            is_heard(&mut world, lost, &case);
        }
    }
}

/// One of sixteen nodes, without a link to the node `id`.
fn far_from(world: &World, id: u32) -> u32 {
    let overlay = world.peer(id).expect("it runs").overlay();
    let fingers = overlay.fingers().expect("it has a place");
    let tables = fingers.clockwise().iter().chain(fingers.counterclockwise());
    let near: Vec<u32> = (tables.copied().flatten())
        .chain(overlay.tree().parent())
        .chain(overlay.tree().children())
        .collect();
    let far = (0..16).find(|other| *other != id && !near.contains(other));
    far.expect("twelve of sixteen are linked at most")
}

/// The former life of the node said goodbye. One node remembers the goodbye and tells all nodes
/// that have started again since. No node remembers a link to that life.
#[test]
fn a_goodbye_of_a_life_that_a_node_has_forgotten_makes_it_begin_a_later_one() {
    let lost = 5;
    for seed in 0..6 {
        let mut world = cluster(seed, 16);
        let witness = far_from(&world, lost);
        world.leave(lost, seconds(1));
        world.run_for(seconds(2));
        for id in (0..16).filter(|id| *id != lost && *id != witness) {
            world.restart(id);
        }
        world.run_for(seconds(20));
        world.restart_with(lost, Memory::Lost);
        let case = format!("seed {seed}, witness {witness}");
        exact(&mut world, seconds(120), &case);
        assert!(world.boot(lost) > AHEAD, "{case}: {}", world.boot(lost));
        for id in [lost, witness] {
            is_heard(&mut world, id, &case);
        }
        let reached = |id| world.peer(id).expect("it runs").relay().departed().count();
        assert_eq!(reached(witness), 0, "{case}: nobody is left out");
    }
}

/// All nodes with links to the former life have started again. One far node has taken messages of
/// that life, and refuses messages of an older life. For the refusal the far node makes a link, and
/// over this link one of the two nodes learns the newer life.
#[test]
fn a_node_that_lost_its_state_is_heard_by_a_node_far_from_it() {
    let lost = 5;
    for seed in 0..6 {
        let mut world = cluster(seed, 16);
        is_heard(&mut world, lost, "before");
        let witness = far_from(&world, lost);
        world.crash(lost);
        for id in (0..16).filter(|id| *id != lost && *id != witness) {
            world.restart(id);
        }
        world.restart_with(lost, Memory::Lost);
        let case = format!("seed {seed}, witness {witness}");
        exact(&mut world, seconds(120), &case);
        published(&mut world, lost);
        world.run_for(seconds(5));
        is_heard(&mut world, lost, &case);
    }
}

/// No node that the member meets at first knows its former life. A node that does comes later.
#[test]
fn a_member_whose_newer_life_becomes_known_goes_on_as_a_new_one() {
    let (lost, witness) = (3, 4);
    let mut world = cluster(1, 5);
    let away = world.now() + seconds(40);
    world
        .network()
        .partition_until(&[vec![witness], vec![0, 1, 2, 3]], away);
    world.crash_noticed(lost);
    world.run_for(seconds(12));
    for id in [0, 1, 2] {
        world.restart(id);
    }
    world.restart_with(lost, Memory::Lost);
    world.run_for(seconds(15));
    assert!(world.boot(lost) < AHEAD, "it is a member in an older life");
    let placement = world.peer(lost).and_then(|peer| peer.overlay().placement());
    assert!(placement.is_some_and(|placement| placement.population.get() > 1));
    exact(&mut world, seconds(120), "healed");
    assert!(world.boot(lost) > AHEAD);
    for id in 0..5 {
        is_heard(&mut world, id, "healed");
    }
}
