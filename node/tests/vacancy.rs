//! Ranks of the dead stay vacant for a while, in the seeded world.

use std::time::Duration;

use binomesh::world::{Defect, DeploymentTree, Network, World};
use rand::seq::index;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn formed(seed: u64, count: u32, shape: DeploymentTree, grace: Duration) -> World {
    let mut world = World::new(seed, Network::local());
    world.deploy(count, shape, |config| config.pace.grace = grace);
    settle(&mut world, seconds(60));
    world
}

#[track_caller]
fn settle(world: &mut World, limit: Duration) -> Duration {
    let start = world.now();
    let settled = world.run_until(start + limit, |w| w.defect().is_none());
    let (seed, defect) = (world.seed(), world.defect());
    assert!(settled, "seed {seed}: {defect:?}");
    world.now() - start
}

/// Runs until the graph is exact and no rank is vacant, and returns the time that this took.
#[track_caller]
fn compact(world: &mut World, limit: Duration) -> Duration {
    let start = world.now();
    let is_exact = world.run_until(start + limit, |w| w.defect_or_vacancy().is_none());
    let (seed, defect) = (world.seed(), world.defect_or_vacancy());
    assert!(is_exact, "seed {seed}: {defect:?}");
    world.now() - start
}

#[test]
fn a_death_moves_no_rank_within_the_grace_and_is_compacted_after_it() {
    for victim in 0..16 {
        let mut world = formed(victim.into(), 16, DeploymentTree::Binomial, seconds(30));
        let mut before = world.placements();
        world.crash(victim);
        let relinked = settle(&mut world, seconds(20));
        assert!(
            relinked < seconds(4),
            "{victim}: relinked after {relinked:?}"
        );
        before.remove(&victim);
        assert_eq!(world.placements(), before, "victim {victim}");
        world.run_for(seconds(20));
        assert_eq!(world.placements(), before, "victim {victim}");
        let compacted = compact(&mut world, seconds(30));
        assert!(
            compacted > seconds(5),
            "{victim}: compacted after {compacted:?}"
        );
    }
}

#[test]
fn a_member_that_returns_within_the_grace_gets_its_rank_back() {
    for victim in 0..16 {
        let mut world = formed(victim.into(), 16, DeploymentTree::Binomial, seconds(30));
        let before = world.placements();
        world.crash(victim);
        world.run_for(seconds(10));
        world.restart(victim);
        let returned = compact(&mut world, seconds(30));
        assert_eq!(world.placements(), before, "victim {victim}");
        assert!(returned < seconds(10), "{victim}: back after {returned:?}");
    }
}

#[test]
fn a_restarted_member_gets_its_rank_back() {
    for victim in 0..16 {
        let mut world = formed(victim.into(), 16, DeploymentTree::Binary, seconds(30));
        let before = world.placements();
        world.restart(victim);
        compact(&mut world, seconds(30));
        assert_eq!(world.placements(), before, "victim {victim}");
    }
}

/// Roots keep their ranks too: a root may be back before any node misses it, or after all nodes
/// have found it down.
#[test]
fn a_rolling_restart_within_the_grace_keeps_all_ranks() {
    let shapes = [
        DeploymentTree::Random,
        DeploymentTree::Binary,
        DeploymentTree::Binomial,
        DeploymentTree::Flat,
        DeploymentTree::Chain,
    ];
    for (seed, away) in (0..60).zip([300, 1500, 4000].into_iter().cycle()) {
        let shape = shapes[seed as usize % shapes.len()];
        let mut world = formed(seed, 24, shape, seconds(30));
        let before = world.placements();
        for victim in 0..24 {
            world.crash(victim);
            world.run_for(Duration::from_millis(away));
            world.restart(victim);
            compact(&mut world, seconds(30));
            let moved = world.placements() != before;
            assert!(!moved, "seed {seed}, {shape:?}, node {victim}, {away} ms");
        }
    }
}

/// The whole cluster starts again, one node a second. Each node may wait for its old rank, and no
/// overlay has this rank any more.
#[test]
fn members_that_return_one_after_the_other_keep_nobody_waiting() {
    for seed in 0..5 {
        let count = 24;
        let mut world = formed(seed, count, DeploymentTree::Binary, seconds(30));
        (0..count).for_each(|id| world.crash(id));
        let mut waits = vec![0; count as usize];
        for now in 0..2 * count {
            if now < count {
                world.restart(now);
            }
            world.run_for(seconds(1));
            let placements = world.placements();
            for id in 0..=now.min(count - 1) {
                let wait = &mut waits[id as usize];
                *wait = if placements.contains_key(&id) {
                    0
                } else {
                    *wait + 1
                };
                assert!(*wait < 15, "seed {seed}: {id} has no rank at {now} s");
            }
        }
    }
}

#[test]
fn more_than_an_eighth_is_compacted_before_the_grace_is_over() {
    for seed in 0..10 {
        let mut world = formed(seed, 32, DeploymentTree::Binomial, seconds(300));
        let victims = index::sample(world.rng(), 32, 6);
        victims.into_iter().for_each(|id| world.crash(id as u32));
        let start = world.now();
        let is_thin = |w: &World| match w.defect_or_vacancy() {
            None => true,
            Some(Defect::Vacant(vacant)) => vacant * 8 <= w.placements().len() + vacant,
            Some(_) => false,
        };
        assert!(world.run_until(start + seconds(20), is_thin), "seed {seed}");
    }
}

#[test]
fn without_grace_every_death_is_compacted_at_once() {
    for victim in 0..12 {
        let mut world = formed(victim.into(), 12, DeploymentTree::Binomial, Duration::ZERO);
        world.crash(victim);
        let took = compact(&mut world, seconds(20));
        assert!(took < seconds(4), "victim {victim}: {took:?}");
    }
}

/// A newcomer is no returning member: it is counted although ranks are vacant.
#[test]
fn a_newcomer_is_counted_soon_though_a_rank_is_vacant() {
    let mut world = formed(3, 16, DeploymentTree::Binomial, seconds(300));
    world.crash(5);
    world.run_for(seconds(10));
    let mut config = binomesh_overlay::Config::new(100, 1, 9);
    config.parent = Some(3);
    world.start(config);
    let took = compact(&mut world, seconds(60));
    assert!(took < seconds(10), "{took:?}");
}

#[test]
fn a_member_that_was_cut_off_finds_its_place_and_rank() {
    for lonely in 0..16 {
        let mut world = formed(lonely.into(), 16, DeploymentTree::Binomial, seconds(60));
        let before = world.placements();
        for other in (0..16).filter(|other| *other != lonely) {
            world.network().cut(lonely, other);
            world.network().cut(other, lonely);
        }
        world.run_for(seconds(20));
        world.network().mend();
        compact(&mut world, seconds(60));
        assert_eq!(world.placements(), before, "{lonely} was cut off");
    }
}

/// The rank of the leaver stays vacant, as after a death. The leaver has said goodbye, so no node
/// watches it or waits for it.
#[test]
fn a_leaver_is_avoided_by_all_within_a_second_and_its_rank_stays_vacant() {
    for leaver in 0..16 {
        let mut world = formed(leaver.into(), 16, DeploymentTree::Binomial, seconds(30));
        let mut before = world.placements();
        world.leave(leaver, seconds(1));
        assert!(world.run_until(world.now() + seconds(2), |w| !w.is_up(leaver)));
        let start = world.now();
        let avoided = world.run_until(start + seconds(20), |w| {
            let mut others = w.peers().filter(|(id, _)| *id != leaver);
            others.all(|(_, peer)| peer.overlay().down().any(|id| id == leaver))
        });
        let took = world.now() - start;
        assert!(avoided && took < seconds(1), "{leaver}: {took:?}");
        settle(&mut world, seconds(20));
        before.remove(&leaver);
        assert_eq!(world.placements(), before, "{leaver}");
        // The leaver may come back.
        world.restart(leaver);
        settle(&mut world, seconds(60));
        let is_welcome = world.run_until(world.now() + seconds(10), |w| {
            let mut all = w.peers();
            all.all(|(_, peer)| peer.overlay().down().next().is_none())
        });
        assert!(is_welcome, "{leaver}");
    }
}
