//! Hosts with their present faults.

use std::collections::{BTreeMap, BTreeSet};

use binomesh::cluster::Place;
use tokio::time::Instant;

use super::fault::{Fault, Share};
use super::network::{Family, Hosts};
use super::udp_relay::UdpRelay;
use super::{HOSTS_MAX, HostError};

/// The hosts, and the relay between them if there is one. Dropping this ends them.
#[derive(Debug)]
pub struct Testbed {
    hosts: Hosts,
    relay: Option<UdpRelay>,
    places: Vec<Place>,
    /// The hosts that are cut, and until when.
    cuts: BTreeMap<u32, Option<Instant>>,
    losses: BTreeMap<u32, Share>,
    limited: BTreeSet<u32>,
}

impl Testbed {
    /// Make this many hosts in the network namespace of this process, which must be one of its own.
    /// With a relay, datagrams can be delayed and doubled.
    pub async fn make(count: u32, family: Family, is_relayed: bool) -> Result<Self, HostError> {
        if count > HOSTS_MAX {
            return Err(HostError::TooMany);
        }
        let hosts = Hosts::make(count, family).await?;
        let (places, relay) = match is_relayed {
            true => {
                let places = hosts.relayed_places().await?;
                let relay = UdpRelay::between(places.clone()).await?;
                (places, Some(relay))
            }
            false => (hosts.places(), None),
        };
        Ok(Self {
            hosts,
            relay,
            places,
            cuts: BTreeMap::new(),
            losses: BTreeMap::new(),
            limited: BTreeSet::new(),
        })
    }

    /// The places where the nodes listen, one per host.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Check that a fault can be applied in a testbed of this many hosts, with or without a relay.
    pub fn check(count: u32, is_relayed: bool, fault: Fault) -> Result<(), HostError> {
        let host = match fault {
            Fault::Cut { host, .. }
            | Fault::Rate { host, .. }
            | Fault::Drop { host, .. }
            | Fault::Delay { host, .. }
            | Fault::Duplicate { host, .. }
            | Fault::Address { host, .. } => host,
            Fault::Restore => return Ok(()),
        };
        if host >= count {
            return Err(HostError::NoSuchHost { host, count });
        }
        match fault {
            Fault::Address { .. } if is_relayed => Err(HostError::Relayed),
            _ if fault.is_of_relay() && !is_relayed => Err(HostError::NoRelay),
            _ => Ok(()),
        }
    }

    /// Apply a fault now. It replaces an earlier one of its kind at that host.
    pub async fn apply(&mut self, fault: Fault, now: Instant) -> Result<(), HostError> {
        Self::check(self.hosts.count(), self.relay.is_some(), fault)?;
        match fault {
            Fault::Cut { host, length } => {
                self.hosts.set_cut(host, true).await?;
                self.cuts.insert(host, length.map(|length| now + length));
            }
            Fault::Rate { host, rate } => {
                self.hosts.set_rate(host, Some(rate)).await?;
                self.limited.insert(host);
            }
            Fault::Drop { host, share } => {
                let mut losses = self.losses.clone();
                losses.insert(host, share);
                self.hosts.set_losses(&losses).await?;
                self.losses = losses;
            }
            Fault::Delay { host, length } => {
                self.relay()?.set_delay(host as usize, length);
            }
            Fault::Duplicate { host, share } => {
                self.relay()?.set_duplicates(host as usize, share);
            }
            Fault::Address { host, address } => self.hosts.set_address(host, address).await?,
            Fault::Restore => self.restore().await?,
        }
        Ok(())
    }

    /// The time at which the next cut ends, if one has an end.
    pub fn next_mending(&self) -> Option<Instant> {
        self.cuts.values().flatten().min().copied()
    }

    /// End the cuts whose time is over. Returns their hosts.
    pub async fn mend(&mut self, now: Instant) -> Result<Vec<u32>, HostError> {
        let is_over = |end: &Option<Instant>| end.is_some_and(|end| end <= now);
        let cuts = self.cuts.iter().filter(|(_, end)| is_over(end));
        let over: Vec<u32> = cuts.map(|(host, _)| *host).collect();
        for host in &over {
            self.hosts.set_cut(*host, false).await?;
            self.cuts.remove(host);
        }
        Ok(over)
    }

    async fn restore(&mut self) -> Result<(), HostError> {
        while let Some((host, _)) = self.cuts.first_key_value() {
            let host = *host;
            self.hosts.set_cut(host, false).await?;
            self.cuts.remove(&host);
        }
        while let Some(host) = self.limited.first().copied() {
            self.hosts.set_rate(host, None).await?;
            self.limited.remove(&host);
        }
        if !self.losses.is_empty() {
            self.hosts.set_losses(&BTreeMap::new()).await?;
            self.losses.clear();
        }
        if let Some(relay) = &self.relay {
            relay.restore();
        }
        Ok(())
    }

    fn relay(&self) -> Result<&UdpRelay, HostError> {
        self.relay.as_ref().ok_or(HostError::NoRelay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::fault::Step;

    #[test]
    fn a_fault_that_cannot_be_done_here_says_why() {
        for (line, is_relayed, said) in [
            (
                "cut 4",
                false,
                Some("host 4 does not exist; the hosts are 0 to 3"),
            ),
            ("cut 3", false, None),
            ("delay 1 50ms", false, Some("start with --relay")),
            ("duplicate 1 5%", false, Some("start with --relay")),
            ("delay 1 50ms", true, None),
            ("address 1 10.77.0.9", true, Some("start without --relay")),
            ("address 1 10.77.0.9", false, None),
            ("restore", false, None),
        ] {
            let Ok(Step::Fault(fault)) = line.parse() else {
                panic!("{line}");
            };
            let checked = Testbed::check(4, is_relayed, fault);
            match (checked, said) {
                (Ok(()), None) => {}
                (Err(error), Some(said)) => {
                    assert!(
                        error.is_usage() && error.to_string().contains(said),
                        "{error}"
                    );
                }
                (other, _) => panic!("{line}: {other:?}"),
            }
        }
    }
}
