//! A relay in the path of every datagram between nodes, which can cut them into
//! two sides. It needs no privilege.
//!
//! ```text
//!   node i binds B_i and advertises R_i, a socket of the relay
//!   node j ──▶ R_i ─[ cut? ]─ sent from R_j ──▶ B_i
//! ```
//!
//! So each node sees the others at the addresses that they advertise. What is
//! cut vanishes, as on a wire that is pulled: nobody is told.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use binomesh::cluster::Place;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use crate::command::Failure;

/// The port of all sockets: each has a loopback address of its own.
const PORT: u16 = 7400;
/// Longer than any datagram.
const DATAGRAM: usize = 65_536;

/// A relay at work; it ends when dropped.
#[derive(Debug)]
pub struct UdpRelay {
    wires: Arc<Wires>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Wires {
    places: Vec<Place>,
    /// Which of two sides each node is on.
    sides: Vec<bool>,
    sockets: Vec<UdpSocket>,
    is_cut: AtomicBool,
    passed: AtomicU64,
    dropped: AtomicU64,
}

impl UdpRelay {
    /// A relay for as many nodes as there are sides; nothing is cut yet.
    pub async fn start(sides: Vec<bool>) -> Result<Self, Failure> {
        let places = places(sides.len(), std::process::id())?;
        let mut sockets = Vec::new();
        for place in &places {
            let address = place.advertise.unwrap_or(place.bind);
            let bound = UdpSocket::bind(address).await;
            sockets.push(bound.map_err(|error| {
                Failure::Run(format!("the relay cannot bind {address}: {error}"))
            })?);
        }
        let wires = Arc::new(Wires {
            places,
            sides,
            sockets,
            is_cut: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        for to in 0..wires.places.len() {
            tasks.spawn(carry(wires.clone(), to));
        }
        Ok(Self {
            wires,
            _tasks: tasks,
        })
    }

    /// Where each node is to listen.
    pub fn places(&self) -> Vec<Place> {
        self.wires.places.clone()
    }

    /// Cut the sides off each other, or mend the cut.
    pub fn set_cut(&self, is_cut: bool) {
        self.wires.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// How many datagrams came through.
    pub fn passed(&self) -> u64 {
        self.wires.passed.load(Ordering::Relaxed)
    }

    /// How many the cut has swallowed.
    pub fn dropped(&self) -> u64 {
        self.wires.dropped.load(Ordering::Relaxed)
    }
}

/// Carry what arrives for node `to`.
async fn carry(wires: Arc<Wires>, to: usize) {
    let (Some(socket), Some(place)) = (wires.sockets.get(to), wires.places.get(to)) else {
        return;
    };
    let mut datagram = vec![0; DATAGRAM];
    loop {
        // An error is the echo of an earlier datagram to a port that was closed.
        let Ok((length, source)) = socket.recv_from(&mut datagram).await else {
            continue;
        };
        let mut others = wires.places.iter();
        let Some(from) = others.position(|other| other.bind == source) else {
            continue;
        };
        let apart = wires.sides.get(from) != wires.sides.get(to);
        let (Some(sender), Some(body)) = (wires.sockets.get(from), datagram.get(..length)) else {
            continue;
        };
        if apart && wires.is_cut.load(Ordering::Relaxed) {
            wires.dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        // A full socket loses a datagram, as a network does.
        if sender.send_to(body, place.bind).await.is_ok() {
            wires.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Two loopback addresses per node, in a block that follows from the process id
/// so that runs beside each other do not meet.
fn places(nodes: usize, pid: u32) -> Result<Vec<Place>, Failure> {
    let [.., high, low] = pid.to_be_bytes();
    let place = |number: usize| {
        let host = u8::try_from(number + 1).ok().filter(|host| *host < 254)?;
        // 127.128 to 127.191 for nodes, 127.192 to 127.255 for the relay.
        let block = high % 64;
        let address =
            |first: u8| SocketAddr::from((Ipv4Addr::new(127, first + block, low, host), PORT));
        Some(Place {
            bind: address(128),
            advertise: Some(address(192)),
            namespace: None,
        })
    };
    let places: Option<Vec<Place>> = (0..nodes).map(place).collect();
    places.ok_or_else(|| Failure::Usage("the relay carries at most 253 nodes".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn datagrams_pass_from_the_advertised_address_until_they_are_cut() {
        let relay = UdpRelay::start(vec![true, false, true]).await.unwrap();
        let places = relay.places();
        let mut nodes = Vec::new();
        for place in &places {
            nodes.push(UdpSocket::bind(place.bind).await.unwrap());
        }
        let advertised = |number: usize| places[number].advertise.unwrap();
        let mut buffer = [0; 16];
        nodes[0].send_to(b"one", advertised(1)).await.unwrap();
        let (length, from) = nodes[1].recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..length], from), (&b"one"[..], advertised(0)));

        relay.set_cut(true);
        nodes[0].send_to(b"lost", advertised(1)).await.unwrap();
        // Its own side still gets through, and is carried after the lost one.
        nodes[0].send_to(b"two", advertised(2)).await.unwrap();
        nodes[2].recv_from(&mut buffer).await.unwrap();
        while relay.dropped() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        relay.set_cut(false);
        nodes[0].send_to(b"three", advertised(1)).await.unwrap();
        let (length, _) = nodes[1].recv_from(&mut buffer).await.unwrap();
        assert_eq!(&buffer[..length], b"three");
        assert_eq!((relay.passed(), relay.dropped()), (3, 1));
    }

    #[test]
    fn every_node_has_addresses_of_its_own() {
        let places = places(253, 0xffff).unwrap();
        let all = places
            .iter()
            .flat_map(|place| [Some(place.bind), place.advertise]);
        let distinct: std::collections::BTreeSet<_> = all.flatten().collect();
        assert_eq!(distinct.len(), 2 * 253);
        assert!(super::places(254, 1).is_err());
    }
}
