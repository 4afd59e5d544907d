//! Makes the running parts of a node from its settings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binomesh_overlay::config::{Gather, Pace};
use binomesh_overlay::quic::{BindError, Location, Transport, TransportConfig, TransportLimits};
use binomesh_overlay::{self as overlay, PeerId};
use binomesh_routing as routing;
use binomesh_routing::packet::Payloads;
use binomesh_routing::sibling_tree::Fanout;

use super::answer::Answers;
use super::callers::Callers;
use super::collections::Collections;
use super::inventory::Inventory;
use super::life::LifeInPlace;
use super::outage::Outages;
use super::proof;
use super::queue::OpenMessages;
use super::readiness::Unreadiness;
use super::receipts::LastNames;
use super::refusals::Refusals;
use super::targets::{LostMembers, reachable_metrics};
use super::{Host, LoopContext, ReadyLoop, StartError};
use crate::expiry::Expiry;
use crate::peer::Peer;
use crate::settings::{Bootstrap, NodeConfig, Profile, Seed};
use crate::spiffe::id_of;
use crate::state::wall_clock_seconds;
use crate::subscription::{Subscribers, Unclaimed};
use crate::timers::TimerQueue;
use crate::votes::Votes;

pub(super) fn open(context: LoopContext) -> Result<ReadyLoop, StartError> {
    let LoopContext {
        config,
        credentials,
        state,
        boot,
        commands,
        placement,
        stop,
    } = context;
    let identity = credentials.identity;
    let trust_domain = identity.subject().trust_domain.clone();
    let id = identity.id();
    let notary = proof::notary(&identity, config.signatures)?;
    let mut expiry = Expiry::new(&identity.terms());
    expiry.attend(wall_clock_seconds());
    let lists = identity.lists();
    let transport = TransportConfig {
        identity,
        bind: vec![config.bind],
        advertised: config.advertise.clone(),
        metrics: reachable_metrics(&config),
        boot: state.boot,
        node_secret: state.secret,
        limits: limits(&config),
    };
    let (transport, events) = Transport::bind(transport).map_err(failed_bind)?;
    let bound = transport.local_addresses().first().copied();
    let address = config
        .advertise
        .iter()
        .find_map(Location::address)
        .or(bound)
        .unwrap_or(config.bind);
    let contacts = config.parent.iter().chain(&config.seeds);
    for seed in contacts.chain(config.listed()) {
        let (id, at) = (id_of(&trust_domain, &seed.name), vec![seed.address.clone()]);
        transport
            .add_located(id, seed.name.clone(), at)
            .map_err(|error| StartError::Transport(format!("{seed}: {error}")))?;
    }
    let overlay = overlay_config(&config, &trust_domain, id, &state);
    let relay = relay_config(&config, overlay.planted);
    let (votes, record) = Votes::open(&config.state_dir, state.returns)?;
    let mut peer = Peer::remembering(overlay, relay, record);
    if config.signatures.signs() {
        peer = peer.without_quick_ways();
    }
    let inventory = Inventory::new(&config.expect, &trust_domain, id);
    let host = Host {
        peer,
        out: overlay::Outbox::new(),
        address,
        id,
        state,
        boot,
        life: LifeInPlace::default(),
        transport,
        notary,
        expiry,
        lists,
        boots: BTreeMap::new(),
        beat: Duration::ZERO,
        may_look_wait: None,
        acknowledged: BTreeMap::new(),
        round_trips: BTreeMap::new(),
        round_trips_due: super::now(),
        dial_failures: BTreeMap::new(),
        last_refusal: None,
        unreadiness: Unreadiness::default(),
        outages: Outages::new(super::now()),
        refusals: Refusals::default(),
        trust_domain,
        timers: TimerQueue::new(),
        subscribers: Subscribers::default(),
        unclaimed: Unclaimed::new(super::now()),
        messages: OpenMessages::default(),
        collections: Collections::default(),
        callers: Callers::default(),
        votes,
        answers: Answers::default(),
        inventory,
        lost_members: LostMembers::default(),
        last_names: LastNames::default(),
        placement,
        shown: None,
        is_placement_stale: true,
        leaving: None,
        ends: None,
        config,
    };
    let run = Box::pin(host.run(events, commands, stop));
    Ok(ReadyLoop { address, run })
}

fn failed_bind(error: BindError) -> StartError {
    match error {
        BindError::Socket { address, source } => StartError::Bind { address, source },
        other => StartError::Transport(other.to_string()),
    }
}

pub(super) fn overlay_config(
    config: &NodeConfig,
    trust_domain: &str,
    me: PeerId,
    state: &crate::state::NodeState,
) -> overlay::Config<PeerId> {
    let id = |seed: &Seed| id_of(trust_domain, &seed.name);
    let mut wanted = overlay::Config::new(me, state.boot, seed_of(me, state.boot));
    wanted.returns = state.returns;
    wanted.parent = config.parent.as_ref().map(id);
    wanted.seeds = config.seeds.iter().map(id).collect();
    let gather = |list: &[Seed]| Gather {
        peers: list.iter().map(id).collect(),
        quiet: Duration::from_millis(config.meet_quiet_ms),
        latest: Duration::from_secs(config.meet_seconds),
    };
    match config.bootstrap {
        Bootstrap::Tree => {}
        Bootstrap::Clique => {
            let gather = gather(&config.peers);
            wanted.seeds.extend(seeds_among(&gather.peers, me));
            wanted.gather = Some(gather);
        }
        Bootstrap::Graph => {
            let gather = gather(&config.neighbours);
            let others: BTreeSet<PeerId> = gather.peers.iter().copied().collect();
            let others: Vec<PeerId> = others.into_iter().filter(|peer| *peer != me).collect();
            // The contacts are spread over the list: to probe all neighbours after a loss would
            // cost thousands of dials.
            let step = others.len().div_ceil(NEIGHBOURS_AS_SEEDS).max(1);
            wanted.seeds.extend(others.into_iter().step_by(step));
            wanted.survey = Some(gather);
        }
    }
    wanted.alone = config.alone;
    let expected = config.expect.names();
    wanted.expect = expected.map(|name| id_of(trust_domain, name)).collect();
    // In a graph no node knows its place among siblings beforehand.
    wanted.slot = config.slot.filter(|_| config.bootstrap != Bootstrap::Graph);
    wanted.priority = config.priority;
    wanted.limits.max_children = u16::try_from(config.max_children).unwrap_or(u16::MAX);
    wanted.limits.starting_rounds = config.patience_rounds;
    wanted.pace = pace(config);
    wanted.pace.grace = Duration::from_secs(config.grace_seconds);
    #[cfg(feature = "planted")]
    if let Some(bug) = config.planted.as_ref().and_then(|name| name.parse().ok()) {
        wanted.planted = overlay::Planted::new(bug);
    }
    wanted
}

/// The most neighbours in a graph that become contacts. A guess: an orphan asks 24 peers a round.
/// With fewer, an orphan may know no live peer; with more, a loss causes more dials.
const NEIGHBOURS_AS_SEEDS: usize = 16;

/// The contacts of a node in a fully connected system, besides its configured seeds: the peers at
/// the distances 2^i on both sides of it in the list, and the first of the list. If all lists are
/// equal and all listed peers are met, its first parent and children in the tree are among them.
/// These contacts lead from each node to every other one; to probe all peers after a loss would
/// cost thousands of dials.
fn seeds_among(peers: &[PeerId], me: PeerId) -> impl Iterator<Item = PeerId> + '_ {
    let place = peers.iter().position(|peer| *peer == me).unwrap_or(0);
    let count = peers.len();
    let distances =
        (0..usize::BITS).map_while(move |i| Some(1 << i).filter(|d: &usize| *d < count));
    let both = distances.flat_map(move |distance| [count - distance, distance]);
    let near = both.filter_map(move |distance| peers.get((place + distance) % count));
    // A node that is not in the list counts as place 0, which has no distance to the first entry.
    let distinct: BTreeSet<PeerId> = near.chain(peers.first()).copied().collect();
    distinct.into_iter().filter(move |peer| *peer != me)
}

fn pace(config: &NodeConfig) -> Pace {
    match config.profile {
        Profile::Default => Pace::default(),
        Profile::Fast => Pace::fast(),
        Profile::Quiet => Pace::quiet(),
    }
}

/// The seed of jitter and nonces. It must differ between nodes and boots but need not be secret, so
/// it is made of the public id and boot.
fn seed_of(me: PeerId, boot: u64) -> u64 {
    let low = me.as_bytes().iter().rev().take(8);
    low.fold(boot, |seed, byte| seed.rotate_left(8) ^ u64::from(*byte))
}

pub(super) fn relay_config(config: &NodeConfig, planted: overlay::Planted) -> routing::Config {
    routing::Config {
        payload_max: config.max_payload_bytes,
        router: config.router.chosen(),
        fanout: Fanout::new(config.fanout).unwrap_or(Fanout::TWO),
        planted,
        ..routing::Config::default()
    }
}

/// The longest packet that any node may send: the longest payload with the longest head. It is the
/// same at all nodes, whatever payloads a node accepts: a longer frame ends the link, while a
/// longer payload is only refused.
const PACKET_MAX: usize = NodeConfig::MAX_PAYLOAD_BYTES + routing::wire::MAX_HEAD_BYTES;

/// The longest packet of several messages. It goes on the common stream, since a stream of its own
/// would need two more tasks.
const SHARED_MAX: usize = Payloads::MAX_BYTES + routing::wire::MAX_HEAD_BYTES;

fn limits(config: &NodeConfig) -> TransportLimits {
    let defaults = TransportLimits::default();
    // Beats watch the neighbours. Other links only have to stay open in the middleboxes between,
    // most of which forget a silent flow after 30 s at the earliest (RFC 9000, 10.1.2). `quiet` is
    // for networks whose middleboxes remember longer, or that have none.
    let keep_alive = Duration::from_secs(match config.profile {
        Profile::Default => 29,
        Profile::Fast => 20,
        Profile::Quiet => 100,
    });
    let (link_idle, redial_max) = match config.profile {
        Profile::Default | Profile::Quiet => (defaults.link_idle, defaults.redial_max),
        // A fifth, like the beat of this profile.
        Profile::Fast => (defaults.link_idle / 5, defaults.redial_max / 5),
    };
    // The timeout is about a beat. With less, a process on a loaded machine would be taken for
    // gone. With more, a process that was started on another host waits longer to be admitted.
    let beat = pace(config).beat;
    let answer_timeout = beat.clamp(Duration::from_millis(500), Duration::from_secs(2));
    TransportLimits {
        answer_timeout,
        link_idle,
        redial_max,
        packet_frame: PACKET_MAX,
        large_above: SHARED_MAX,
        keep_alive,
        idle_timeout: keep_alive * 3 / 2,
        ..defaults
    }
}
