//! debug
use std::time::Duration;
use rand::Rng;
use binomesh::world::{Network, Shape, World};
fn dump(world: &World) {
    println!("--- {:?} {:?}", world.now(), world.defect());
    for (id, p) in world.peers() {
        let o = p.overlay();
        println!("{id}: parent {:?} kids {:?} root {:?} w{} {} ring {:?}<{:?} place {:?} down {:?} {:?} need {:?}", o.tree().parent(), o.tree().children().collect::<Vec<_>>(), o.tree().root().id, o.tree().root().weight, o.tree().is_anchored(), o.ring().predecessor, o.ring().successor, o.placement().map(|p|(p.epoch.root,p.epoch.counter,p.population.get(),p.rank.0)), o.down().collect::<Vec<_>>(), o.health(), o.census().need());
    }
}
fn seed() -> u64 { std::env::var("SEED").unwrap().parse().unwrap() }
#[test]
fn orphans() {
    let seed = seed();
        let latency = Duration::from_millis(50);
        let mut world = World::new(seed, Network::new(latency, latency * 2, 0));
        world.deploy(8, Shape::Flat, |config| config.seeds.clear());
        world.run_until(Duration::from_secs(60), |w| w.defect().is_none());
        (0..4).for_each(|id| world.crash(id));
        for _ in 0..4 {
        world.run_for(Duration::from_secs(15));
         dump(&world); }
}
#[test]
fn churn() {
    let seed = seed();
        let network = Network::new(
            Duration::from_micros(100),
            Duration::from_millis(20),
            20_000,
        );
        let mut world = World::new(seed, network);
        world.deploy(20, Shape::Random, |_| {});
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
        world.restart(0);
        world.network().loss_per_million = 0;
        world.run_for(Duration::from_secs(300));
        dump(&world);
}
