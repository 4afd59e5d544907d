//! A relay in the path of every datagram between nodes. It can cut the nodes into two sides, and
//! delay and double the datagrams of a node. It needs no privilege.
//!
//! ```text
//!   node i binds B_i and advertises R_i, a socket of the relay
//!   node j ──▶ R_i ─[ cut? delay, copies ]─ sent from R_j ──▶ B_i
//! ```
//!
//! So each node sees the others at the addresses that they advertise. The relay reports no datagram
//! that it drops, like an unplugged wire.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use binomesh::cluster::Place;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::HostError;
use super::fault::Share;

/// The port of all sockets on loopback: each has an address of its own.
const PORT: u16 = 7400;
/// A length above that of any datagram.
const DATAGRAM: usize = 65_536;
/// How many blocks of addresses are tried, as other relays of this machine may use some.
const BLOCKS_MAX: u32 = 64;
/// The most datagrams that wait for one node. Further ones are lost.
const WAITING_MAX: usize = 8_192;

/// A relay at work; it ends when dropped.
#[derive(Debug)]
pub struct UdpRelay {
    wires: Arc<Wires>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Wires {
    wires: Vec<Wire>,
    is_cut: AtomicBool,
    passed: AtomicU64,
    dropped: AtomicU64,
}

/// The way to one node.
#[derive(Debug)]
struct Wire {
    place: Place,
    socket: UdpSocket,
    /// The side that the node is on.
    side: bool,
    delay_micros: AtomicU64,
    /// The share of its datagrams that are doubled, in parts of [`Share::ALL`].
    duplicates: AtomicU32,
}

impl UdpRelay {
    /// A relay on loopback for as many nodes as `sides` has entries. An entry is the side that its
    /// node is on; the sides are not cut off from each other yet.
    pub async fn start(sides: Vec<bool>) -> Result<Self, HostError> {
        let mut block = std::process::id();
        let mut tries = 1..BLOCKS_MAX;
        loop {
            let places = places(sides.len(), block)?;
            match Self::of(places.into_iter().zip(sides.iter().copied())).await {
                Err(HostError::NoSocket { source, .. })
                    if source.kind() == ErrorKind::AddrInUse && tries.next().is_some() =>
                {
                    block = block.wrapping_add(1);
                }
                started => return started,
            }
        }
    }

    /// A relay at the advertised addresses of these places.
    pub async fn between(places: Vec<Place>) -> Result<Self, HostError> {
        Self::of(places.into_iter().map(|place| (place, true))).await
    }

    async fn of(places: impl Iterator<Item = (Place, bool)>) -> Result<Self, HostError> {
        let mut wires = Vec::new();
        for (place, side) in places {
            let address = place.advertise.unwrap_or(place.bind);
            let bound = UdpSocket::bind(address).await;
            let socket = bound.map_err(|source| HostError::NoSocket { address, source })?;
            wires.push(Wire {
                place,
                socket,
                side,
                delay_micros: AtomicU64::new(0),
                duplicates: AtomicU32::new(0),
            });
        }
        let wires = Arc::new(Wires {
            wires,
            is_cut: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        for to in 0..wires.wires.len() {
            tasks.spawn(carry(wires.clone(), to));
        }
        Ok(Self {
            wires,
            _tasks: tasks,
        })
    }

    /// The places where the nodes shall listen.
    pub fn places(&self) -> Vec<Place> {
        let wires = self.wires.wires.iter();
        wires.map(|wire| wire.place.clone()).collect()
    }

    /// Cut the sides off from each other, or connect them again.
    pub fn set_cut(&self, is_cut: bool) {
        self.wires.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Delay the datagrams from this node and to it. Between two such nodes both delays add up.
    pub fn set_delay(&self, node: usize, delay: Duration) {
        if let Some(wire) = self.wires.wires.get(node) {
            let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            wire.delay_micros.store(micros, Ordering::Relaxed);
        }
    }

    /// Double this share of the datagrams from this node and to it.
    pub fn set_duplicates(&self, node: usize, share: Share) {
        if let Some(wire) = self.wires.wires.get(node) {
            wire.duplicates.store(share.parts(), Ordering::Relaxed);
        }
    }

    /// End the cut, all delays and all doubling.
    pub fn restore(&self) {
        self.set_cut(false);
        for node in 0..self.wires.wires.len() {
            self.set_delay(node, Duration::ZERO);
            self.set_duplicates(node, Share::default());
        }
    }

    /// How many datagrams came through; each copy counts.
    pub fn passed(&self) -> u64 {
        self.wires.passed.load(Ordering::Relaxed)
    }

    /// How many datagrams were dropped, by the cut or because too many waited.
    pub fn dropped(&self) -> u64 {
        self.wires.dropped.load(Ordering::Relaxed)
    }
}

/// Datagrams that wait, by the time at which they are due and their number.
type Waiting = BTreeMap<(Instant, u64), (usize, Vec<u8>)>;

/// Carry the datagrams that arrive for node `to`.
async fn carry(wires: Arc<Wires>, to: usize) {
    let Some(wire) = wires.wires.get(to) else {
        return;
    };
    let mut rng = ChaCha8Rng::seed_from_u64(to as u64);
    let mut datagram = vec![0; DATAGRAM];
    let mut waiting = Waiting::new();
    let mut number = 0;
    loop {
        let next = waiting.first_key_value().map(|((due, _), _)| *due);
        let received = tokio::select! {
            received = wire.socket.recv_from(&mut datagram) => received,
            () = until(next) => {
                while let Some(first) = waiting.first_entry()
                    && first.key().0 <= now()
                {
                    let (from, body) = first.remove();
                    wires.send(from, to, &body).await;
                }
                continue;
            }
        };
        // An error is caused by an earlier datagram to a port that was closed.
        let Ok((length, source)) = received else {
            continue;
        };
        let mut others = wires.wires.iter();
        let Some(from) = others.position(|other| other.place.bind == source) else {
            continue;
        };
        let (Some(sender), Some(body)) = (wires.wires.get(from), datagram.get(..length)) else {
            continue;
        };
        if sender.side != wire.side && wires.is_cut.load(Ordering::Relaxed) {
            wires.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        let micros = |wire: &Wire| wire.delay_micros.load(Ordering::Relaxed);
        let delay = Duration::from_micros(micros(sender).saturating_add(micros(wire)));
        for _ in 0..copies([sender, wire], &mut rng) {
            if delay.is_zero() {
                wires.send(from, to, body).await;
            } else if waiting.len() < WAITING_MAX {
                waiting.insert((now() + delay, number), (from, body.to_vec()));
                number += 1;
            } else {
                wires.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Wires {
    async fn send(&self, from: usize, to: usize, body: &[u8]) {
        let (Some(from), Some(to)) = (self.wires.get(from), self.wires.get(to)) else {
            return;
        };
        // A full socket loses a datagram, as a network does.
        if from.socket.send_to(body, to.place.bind).await.is_ok() {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// How many copies of a datagram arrive, by the shares of both ends.
fn copies(ends: [&Wire; 2], rng: &mut ChaCha8Rng) -> u32 {
    let is_doubled = ends.into_iter().any(|end| {
        let parts = end.duplicates.load(Ordering::Relaxed);
        parts > 0 && rng.random_range(0..Share::ALL) < parts
    });
    1 + u32::from(is_doubled)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "datagrams are held back by the clock"
)]
fn now() -> Instant {
    Instant::now()
}

/// Two loopback addresses per node, in a block that follows from `number`. The first number is the
/// process id, so runs at the same time seldom use the same block.
fn places(nodes: usize, number: u32) -> Result<Vec<Place>, HostError> {
    let [.., high, low] = number.to_be_bytes();
    let place = |number: usize| {
        let host = u8::try_from(number + 1).ok().filter(|host| *host < 255)?;
        // 127.128 to 127.191 for nodes, 127.192 to 127.255 for the relay.
        let block = high % 64;
        let address =
            |first: u8| SocketAddr::from((Ipv4Addr::new(127, first + block, low, host), PORT));
        Some(Place {
            bind: address(128),
            advertise: Some(address(192)),
            found_at: None,
            namespace: None,
        })
    };
    let places: Option<Vec<Place>> = (0..nodes).map(place).collect();
    places.ok_or(HostError::TooMany)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn relayed(sides: &[bool]) -> (UdpRelay, Vec<UdpSocket>, Vec<SocketAddr>) {
        let relay = UdpRelay::start(sides.to_vec()).await.unwrap();
        let (mut nodes, mut advertised) = (Vec::new(), Vec::new());
        for place in relay.places() {
            nodes.push(UdpSocket::bind(place.bind).await.unwrap());
            advertised.push(place.advertise.unwrap());
        }
        (relay, nodes, advertised)
    }

    #[tokio::test]
    async fn datagrams_pass_from_the_advertised_address_until_they_are_cut() {
        let (relay, nodes, advertised) = relayed(&[true, false, true]).await;
        let mut buffer = [0; 16];
        nodes[0].send_to(b"one", advertised[1]).await.unwrap();
        let (length, from) = nodes[1].recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..length], from), (&b"one"[..], advertised[0]));

        relay.set_cut(true);
        nodes[0].send_to(b"lost", advertised[1]).await.unwrap();
        // Node 0 still reaches node 2, which is on its side. The other datagram is dropped by
        // another task, perhaps later.
        nodes[0].send_to(b"two", advertised[2]).await.unwrap();
        nodes[2].recv_from(&mut buffer).await.unwrap();
        while relay.dropped() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        relay.set_cut(false);
        nodes[0].send_to(b"three", advertised[1]).await.unwrap();
        let (length, _) = nodes[1].recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"three");
        assert_eq!((relay.passed(), relay.dropped()), (3, 1));
    }

    #[tokio::test]
    async fn delays_of_both_ends_add_up_and_doubled_datagrams_arrive_twice() {
        let (relay, nodes, advertised) = relayed(&[true; 3]).await;
        let mut buffer = [0; 16];
        let milliseconds = Duration::from_millis;
        relay.set_delay(0, milliseconds(60));
        relay.set_delay(1, milliseconds(40));
        relay.set_duplicates(1, "100%".parse().unwrap());
        for (from, to, delay, copies) in [(0, 1, 100, 2), (1, 2, 40, 2), (2, 0, 60, 1)] {
            let begun = now();
            let passed = relay.passed();
            nodes[from].send_to(b"word", advertised[to]).await.unwrap();
            for _ in 0..copies {
                let (_, source) = nodes[to].recv_from(&mut buffer).await.unwrap();
                assert_eq!(source, advertised[from]);
                assert!(begun.elapsed() >= milliseconds(delay), "{from} to {to}");
            }
            while relay.passed() < passed + copies {
                tokio::task::yield_now().await;
            }
            assert_eq!(relay.passed(), passed + copies);
        }
        // A later datagram without delay overtakes one that waits.
        relay.set_duplicates(1, Share::default());
        relay.set_delay(1, Duration::ZERO);
        nodes[0].send_to(b"late", advertised[2]).await.unwrap();
        nodes[1].send_to(b"soon", advertised[2]).await.unwrap();
        for word in [&b"soon"[..], b"late"] {
            let (length, _) = nodes[2].recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], word);
        }
        relay.set_delay(0, Duration::from_secs(3600));
        relay.restore();
        nodes[0].send_to(b"now", advertised[1]).await.unwrap();
        let (length, _) = nodes[1].recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"now");
    }

    #[tokio::test]
    async fn relays_beside_each_other_have_different_addresses() {
        let (one, _nodes, first) = relayed(&[true; 2]).await;
        let (other, _others, second) = relayed(&[true; 2]).await;
        assert!(first.iter().all(|address| !second.contains(address)));
        drop((one, other));
    }

    #[test]
    fn every_node_has_addresses_of_its_own() {
        let places = places(254, 0xffff).unwrap();
        let all = places
            .iter()
            .flat_map(|place| [Some(place.bind), place.advertise]);
        let distinct: std::collections::BTreeSet<_> = all.flatten().collect();
        assert_eq!(distinct.len(), 2 * 254);
        assert!(super::places(255, 1).is_err());
    }
}
