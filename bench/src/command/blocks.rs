//! `binomesh-bench blocks`: blocks to all members, one after another, where the uplinks of members
//! are the limit; whole peers in virtual time.

use std::time::Duration;

use binomesh::peer::Event;
use binomesh::world::{Id, World};
use binomesh_routing::packet::Confirmation;
use binomesh_routing::strategy::{Choice, Strategy};
use binomesh_routing::{self as routing, Destination, Due, Publish, Topic};
use bytes::Bytes;
use clap::Args;
use rand::seq::index;
use serde::Serialize;

use super::{Failure, Finding, world};
use crate::record;

/// The longest virtual time until all blocks have come to all members.
const TIME: Duration = Duration::from_secs(600);
/// After this time all members know which members are dead.
const KNOWN: Duration = Duration::from_secs(4);
/// The fanout of the strategy `sibling-tree`.
const FANOUT: u32 = 2;
/// The topic of the blocks.
const TOPIC: &str = "blocks";

/// Send blocks to all members over slow uplinks, in virtual time.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  binomesh-bench blocks
  binomesh-bench blocks --nodes 1024 --strategy circulant --json

A row per strategy: {nodes, dead, strategy, blocks, block_bytes, megabits, seed, seconds,
block_times, least, ratio, bytes_per_member}. The unit of time is that of one block on one
uplink. `least` is the least time of every possible order: blocks − 1 + ⌈log2 nodes⌉. The exit
status is 1 if a strategy takes more than --times `least`.")]
pub struct Blocks {
    /// The number of members.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub nodes: u32,
    /// The number of blocks.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub blocks: u32,
    /// The length of each block.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub block_kib: u32,
    /// The rate of an uplink, in megabits per second.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub megabits: u32,
    /// The strategies that bring the blocks to the members.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "circulant,chain,binomial"
    )]
    pub strategy: Vec<Choice>,
    /// The most blocks that a member has on their way with the strategy `circulant`.
    #[arg(long, default_value_t = routing::Config::default().uplink_copies)]
    pub copies: usize,
    /// The number of members that died just before and whose ranks are vacant.
    #[arg(long, default_value_t = 0)]
    pub dead: u32,
    /// The seed of the simulated world.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The greatest time of a strategy, as a multiple of the least.
    #[arg(long)]
    pub times: Option<f64>,
    /// Print JSON, one row per line.
    #[arg(long)]
    pub json: bool,
}

/// The result of one strategy.
#[derive(Debug, Clone, Serialize)]
struct Row {
    nodes: u32,
    dead: u32,
    strategy: &'static str,
    blocks: u32,
    block_bytes: u32,
    megabits: u32,
    seed: u64,
    seconds: f64,
    block_times: f64,
    least: u32,
    ratio: f64,
    bytes_per_member: u64,
}

impl Blocks {
    /// Measure all strategies, and print their rows.
    pub fn run(&self) -> Result<Finding, Failure> {
        let mut is_good = true;
        for order in &self.strategy {
            let row = self.measure(*order)?;
            record::progress_done();
            is_good &= self.times.is_none_or(|times| row.ratio <= times);
            match self.json {
                true => record::print_json(&row)?,
                false => record::print_line(&row.line())?,
            }
        }
        Ok(Finding::good_if(is_good))
    }

    fn measure(&self, order: Choice) -> Result<Row, Failure> {
        let mut world = world::formed(self.nodes, self.seed, self.relay())?;
        self.end_some(&mut world)?;
        let bytes_per_second = u64::from(self.megabits) * 125_000;
        world.set_uplinks(Some(bytes_per_second));
        world.take_events();
        let began = world.now();
        for block in 0..self.blocks {
            self.publish(&mut world, order.strategy(FANOUT, self.blocks - 1 - block))?;
        }
        record::progress(format_args!("{}", order.name()));
        let taken = self.until_all_have_all(&mut world, began)?;
        let block_bytes = self.block_kib << 10;
        let block_time = f64::from(block_bytes) / bytes_per_second as f64;
        let least = self.blocks - 1 + self.nodes.next_power_of_two().ilog2();
        let block_times = taken.as_secs_f64() / block_time;
        Ok(Row {
            nodes: self.nodes,
            dead: self.dead,
            strategy: order.name(),
            blocks: self.blocks,
            block_bytes,
            megabits: self.megabits,
            seed: self.seed,
            seconds: taken.as_secs_f64(),
            block_times,
            least,
            ratio: block_times / f64::from(least),
            bytes_per_member: world.bytes_sent() / u64::from(self.nodes),
        })
    }

    /// End the processes of `dead` members, and wait until the others know of that.
    fn end_some(&self, world: &mut World) -> Result<(), Failure> {
        if self.dead + 1 >= self.nodes {
            return Err(Failure::Run(format!(
                "--dead {}: at least two of the {} members must stay alive; give a smaller --dead",
                self.dead, self.nodes
            )));
        }
        let others = self.nodes as usize - 1;
        let dead = index::sample(world.rng(), others, self.dead as usize);
        dead.iter().for_each(|id| world.crash(id as u32 + 1));
        world.run_for(KNOWN);
        Ok(())
    }

    fn relay(&self) -> routing::Config {
        routing::Config {
            uplink_copies: self.copies,
            ..routing::Config::default()
        }
    }

    fn publish(&self, world: &mut World, strategy: Strategy) -> Result<(), Failure> {
        let block = vec![0; (self.block_kib as usize) << 10];
        let publish = Publish {
            topic: Topic::new(TOPIC).map_err(Failure::run)?,
            payloads: Bytes::from(block).into(),
            destination: Destination::All,
            strategy,
            due: Due::Settled,
            confirmation: Confirmation::Relayed,
            is_ordered: false,
        };
        let published = world.with_peer(0, |peer, out| peer.publish(publish, out));
        let published = published
            .ok_or_else(|| Failure::Run("the simulated overlay has no peer 0".to_owned()))?;
        published.map(drop).map_err(Failure::run)
    }

    /// The virtual time from `began` until all living members have all blocks.
    fn until_all_have_all(&self, world: &mut World, began: Duration) -> Result<Duration, Failure> {
        let all = u64::from(self.nodes - 1 - self.dead) * u64::from(self.blocks);
        let mut delivered = 0;
        while world.now() < began + TIME {
            world.run_for(Duration::from_millis(1));
            for told in world.take_events() {
                delivered += u64::from(is_block(&told.by, &told.event));
                if delivered == all {
                    return Ok(told.at - began);
                }
            }
        }
        Err(Failure::Run(format!(
            "only {delivered} of {all} blocks were delivered within {} s",
            TIME.as_secs()
        )))
    }
}

fn is_block(by: &Id, event: &Event<Id>) -> bool {
    matches!(event, Event::Relay(routing::Event::Deliver(delivery))
        if *by != 0 && delivery.topic.as_str() == TOPIC)
}

impl Row {
    fn line(&self) -> String {
        format!(
            "{:>5} nodes {:<12} {:>8.1} block times, {:.3} of the least {}, {:.3} s",
            self.nodes, self.strategy, self.block_times, self.ratio, self.least, self.seconds
        )
    }
}
