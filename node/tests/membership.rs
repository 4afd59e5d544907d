//! Joins, deaths, returns and meetings of whole overlays, in the seeded world.

use std::time::Duration;

use binomesh::world::{DeploymentTree, Fault, Lie, Memory, Network, World};
use binomesh_overlay::Config;
use rand::Rng;

/// A build without optimization does only one part in `SHARE` of a long run.
const SHARE: u64 = if cfg!(debug_assertions) { 10 } else { 1 };

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[track_caller]
fn settle(world: &mut World, limit: Duration) -> Duration {
    let start = world.now();
    let settled = world.run_until(start + limit, |w| w.defect().is_none());
    let (seed, defect) = (world.seed(), world.defect());
    assert!(settled, "seed {seed}: {defect:?}");
    world.now() - start
}

fn node(world: &mut World, id: u32, parent: Option<u32>, seeds: &[u32]) -> Config<u32> {
    let mut config = Config::new(id, 1, world.rng().random());
    config.parent = parent;
    config.seeds = seeds.to_vec();
    config
}

/// While nodes join, the test checks after every event that no two nodes have the same rank in the
/// same epoch. The root names an epoch soon after every change, so that joins meet census waves
/// under way.
#[test]
fn joins_during_census_waves_give_no_rank_twice() {
    const EPOCHS: u64 = 500 / SHARE;
    let (mut epochs, mut seed) = (0, 0);
    while epochs < EPOCHS {
        seed += 1;
        let mut world = World::new(seed, Network::local());
        for id in 0..64 {
            let parent = (id > 0).then(|| world.rng().random_range(0..id));
            let mut config = node(&mut world, id, parent, &[0]);
            config.pace.epoch_settle = Duration::from_micros(200);
            config.pace.epoch_latest = Duration::from_millis(1);
            world.start(config);
            // One join per ten rounds. A round is the mean latency of a message.
            let pause = world.now() + Duration::from_micros(2750);
            world.run_until(pause, |w| {
                assert_eq!(w.double_rank(), None, "seed {seed}");
                false
            });
        }
        settle(&mut world, seconds(60));
        let placed = world.peer(0).and_then(|peer| peer.overlay().placement());
        epochs += placed.map_or(0, |placement| placement.epoch.counter);
    }
    println!("{epochs} epochs in {seed} worlds");
}

#[test]
fn nodes_that_join_a_quiet_cluster_are_counted() {
    let mut world = World::new(1, Network::local());
    world.deploy(16, DeploymentTree::Binomial, |_| {});
    settle(&mut world, seconds(60));
    world.run_for(seconds(120));
    for id in 100..116 {
        let config = node(&mut world, id, Some(id % 16), &[0]);
        world.start(config);
    }
    let took = settle(&mut world, seconds(60));
    assert!(took < seconds(5), "{took:?}");
}

#[test]
fn a_graceful_leave_is_not_a_death() {
    for leaver in 0..12 {
        let mut world = World::new(leaver.into(), Network::local());
        world.deploy(12, DeploymentTree::Binomial, |_| {});
        settle(&mut world, seconds(60));
        world.feed(leaver, binomesh::peer::Input::Leave { proof: None });
        world.run_for(Duration::from_millis(50));
        world.crash(leaver);
        let took = settle(&mut world, seconds(60));
        assert!(took < seconds(1), "{leaver} left, settled after {took:?}");
    }
}

#[test]
fn a_restarted_node_is_taken_back() {
    for victim in 0..12 {
        let mut world = World::new(victim.into(), Network::local());
        world.deploy(12, DeploymentTree::Binomial, |_| {});
        settle(&mut world, seconds(60));
        world.restart(victim);
        settle(&mut world, seconds(120));
        world.crash(victim);
        world.run_for(seconds(20));
        world.restart(victim);
        settle(&mut world, seconds(120));
    }
}

#[test]
fn two_roots_become_one_tree() {
    for seed in 0..20 {
        let mut world = World::new(seed, Network::local());
        let sizes: (u32, u32) = (
            world.rng().random_range(1..12),
            world.rng().random_range(1..12),
        );
        for id in 0..sizes.0 {
            let parent = id.checked_sub(1).map(|last| last / 2);
            let config = node(&mut world, id, parent, &[]);
            world.start(config);
        }
        for id in 100..100 + sizes.1 {
            let parent = (id > 100).then_some(100);
            let config = node(&mut world, id, parent, &[0]);
            world.start(config);
        }
        settle(&mut world, seconds(60));
        let larger = if sizes.0.ilog2() >= sizes.1.ilog2() {
            0
        } else {
            100
        };
        let rank = world
            .peer(larger)
            .and_then(|p| p.overlay().placement())
            .map(|p| p.rank.0);
        assert_eq!(
            rank,
            Some(0),
            "seed {seed}: the larger of {sizes:?} keeps its root"
        );
    }
}

#[test]
fn a_cycle_of_configured_parents_becomes_a_tree() {
    for length in 2..=10 {
        let mut world = World::new(length.into(), Network::local());
        for id in 0..length {
            let config = node(&mut world, id, Some((id + 1) % length), &[]);
            world.start(config);
        }
        settle(&mut world, seconds(300));
    }
}

/// Two orphans act in lockstep, and each can ask only the other.
#[test]
fn mutual_orphans_become_a_tree() {
    for seed in 0..50 {
        let mut world = World::new(
            seed,
            Network::new(Duration::from_millis(1), Duration::from_millis(1), 0),
        );
        for (id, parent) in [(0, 1), (1, 0)] {
            let config = node(&mut world, id, Some(parent), &[]);
            world.start(config);
        }
        settle(&mut world, seconds(300));
    }
}

#[test]
fn a_partition_makes_two_overlays_that_become_one_again() {
    for seed in 0..10 {
        let mut world = World::new(seed, Network::local());
        world.deploy(16, DeploymentTree::Binomial, |_| {});
        settle(&mut world, seconds(60));
        for a in 0..8 {
            for b in 8..16 {
                world.network().cut(a, b);
                world.network().cut(b, a);
            }
        }
        world.run_for(seconds(60));
        let root_of = |w: &World, id| w.peer(id).map(|p| p.overlay().tree().root().id);
        assert_ne!(root_of(&world, 0), root_of(&world, 15), "seed {seed}");
        world.network().mend();
        settle(&mut world, seconds(120));
    }
}

/// Other nodes vouch for both ends of a cut tree edge, so neither end is ever down. If the child
/// becomes a ring neighbour of the root, other nodes relay the messages between the two until the
/// cut is mended.
#[test]
fn a_cut_between_parent_and_child_moves_the_child() {
    let mut neighbours = 0;
    for (child, seed) in [1, 2, 4]
        .into_iter()
        .flat_map(|c| (0..10).map(move |s| (c, s)))
    {
        let mut world = World::new(seed, Network::local());
        world.deploy(8, DeploymentTree::Binomial, |_| {});
        settle(&mut world, seconds(60));
        world.network().cut(0, child);
        world.network().cut(child, 0);
        let moved = |w: &World| w.peer(child).and_then(|p| p.overlay().tree().parent());
        let end = world.now() + seconds(60);
        let has_moved = world.run_until(end, |w| !matches!(moved(w), None | Some(0)));
        assert!(
            has_moved,
            "seed {seed}: {child} hangs under {:?}",
            moved(&world)
        );
        settle(&mut world, seconds(60));
        let relayed = |w: &World| w.peer(0).is_some_and(|p| p.overlay().relayed().count() > 0);
        let is_neighbour = |w: &World| {
            w.peer(0)
                .is_some_and(|p| p.overlay().ring().predecessor == Some(child))
        };
        if is_neighbour(&world) {
            neighbours += 1;
            assert!(relayed(&world), "seed {seed}: named as relayed");
            world.run_for(seconds(20));
            world.take_events();
            world.run_for(seconds(60));
            assert_eq!(world.defect(), None, "seed {seed}: it stands");
            let events = world.take_events();
            assert!(events.is_empty(), "seed {seed}: {:?}", events.first());
        }
        world.network().mend();
        settle(&mut world, seconds(60));
        let end = world.now() + seconds(60);
        assert!(
            world.run_until(end, |w| !relayed(w)),
            "seed {seed}: the way is open"
        );
    }
    assert!(neighbours > 0, "the rule is tried");
}

/// The root and its heirs die, no node has seeds, and the orphans give up within one latency of
/// each other. Each orphan then knows other nodes only as former neighbours.
#[test]
fn orphans_that_become_roots_at_once_meet_again() {
    for seed in 0..60 / SHARE {
        let latency = Duration::from_millis(50);
        let mut world = World::new(seed, Network::new(latency, latency * 2, 0));
        world.deploy(8, DeploymentTree::Flat, |config| config.seeds.clear());
        settle(&mut world, seconds(60));
        (0..4).for_each(|id| world.crash(id));
        settle(&mut world, seconds(180));
    }
}

#[test]
fn a_root_that_returns_is_found_by_those_who_were_deployed_under_it() {
    let mut world = World::new(1, Network::local());
    for (id, parent) in [(0, None), (1, Some(0)), (2, Some(0)), (3, Some(1))] {
        let config = node(&mut world, id, parent, &[]);
        world.start(config);
    }
    settle(&mut world, seconds(60));
    world.crash(0);
    for restarted in [1, 2] {
        settle(&mut world, seconds(120));
        world.restart(restarted);
    }
    settle(&mut world, seconds(120));
    world.restart(0);
    settle(&mut world, seconds(300));
}

/// The other nodes get no signal that their links to the former life are dead, and the new life
/// knows no peer. The other nodes dial the root only because they found out themselves that it is
/// silent.
#[test]
fn a_root_that_lost_its_state_is_dialled_beside_its_former_links() {
    for (nodes, away) in [(2, 0), (2, 1), (2, 3), (3, 1), (3, 6), (9, 1), (9, 20)] {
        let mut network = Network::local();
        network.idle_timeout = seconds(100);
        let mut world = World::new(nodes, network);
        for id in 0..nodes as u32 {
            let parent = id.checked_sub(1).map(|id| id / 2);
            let config = node(&mut world, id, parent, &[]);
            world.start(config);
        }
        settle(&mut world, seconds(60));
        world.run_for(seconds(3));
        world.crash(0);
        world.run_for(seconds(away));
        world.restart_with(0, Memory::Lost);
        let taken = settle(&mut world, seconds(60));
        assert!(
            taken <= seconds(10),
            "{nodes} nodes, away for {away} s: {taken:?}"
        );
    }
}

#[test]
fn random_churn_with_losses_heals() {
    for seed in 0..200 / SHARE {
        let network = Network::new(
            Duration::from_micros(100),
            Duration::from_millis(20),
            20_000,
        );
        let mut world = World::new(seed, network);
        world.deploy(20, DeploymentTree::Random, |_| {});
        for _ in 0..30 {
            let pause = world.rng().random_range(10..4000);
            world.run_for(Duration::from_millis(pause));
            let id = world.rng().random_range(0..20);
            match world.rng().random_range(0..3) {
                0 => world.crash(id),
                1 => world.restart(id),
                _ => world.pause(id, Duration::from_millis(pause)),
            }
        }
        // The common seed of all nodes comes back. A restarted node remembers no peer, and without
        // a live contact an island could never find another island.
        world.restart(0);
        world.network().loss_per_million = 0;
        settle(&mut world, seconds(300));
    }
}

#[test]
fn a_quiet_overlay_changes_nothing() {
    let mut world = World::new(9, Network::local());
    world.deploy(32, DeploymentTree::Binomial, |_| {});
    settle(&mut world, seconds(60));
    world.run_for(seconds(60));
    world.take_events();
    let before = world.sent();
    world.run_for(seconds(300));
    let events = world.take_events();
    assert!(events.is_empty(), "{:?}", events.first());
    let rate = (world.sent() - before) as f64 / (32.0 * 300.0);
    println!("{rate:.1} messages per node and second when quiet");
    // Per beat each edge of tree and ring carries about one message, and in every twelfth beat a
    // few more. Every 5 s each node asks about one level of its fingers.
    assert!(rate < 16.0, "{rate} messages per node and second");
}

/// Both ring neighbours of a node, and another pair of nodes, name a different rank in every
/// message. A node that answered each message with its own place would go on for ever.
#[test]
fn neighbours_that_lie_about_their_ranks_keep_nobody_talking() {
    const NODES: u32 = 16;
    for seed in 0..5 {
        let mut world = World::new(seed, Network::local());
        world.deploy(NODES, DeploymentTree::Binomial, |_| {});
        settle(&mut world, seconds(30));
        let rank_of = |id| world.peer(id).and_then(|peer| peer.overlay().placement());
        let mut ranks: Vec<_> = (0..NODES)
            .map(|id| (rank_of(id).unwrap().rank, id))
            .collect();
        ranks.sort_unstable();
        for (_, node) in [ranks[4], ranks[6], ranks[7], ranks[8]] {
            let (lie, ms) = (Lie::Marks, 20_000);
            world.act(
                &Fault::Lie {
                    node,
                    lie,
                    ms,
                    seed,
                },
                |_| {},
            );
        }
        let before = world.sent();
        world.run_for(seconds(10));
        let each = (world.sent() - before) / u64::from(NODES) / 10;
        assert!(
            each < 200,
            "seed {seed}: {each} messages per node and second"
        );
    }
}
