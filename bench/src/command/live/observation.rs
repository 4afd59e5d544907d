//! The observation of a node: its own statements at one moment, and the conclusions from them.
//! Everything that is observed has its source here and nowhere else.
//!
//! If a node's answer has `down`, the list of the peers that it takes for down, that list is
//! believed. If not, only its tables are known.

use std::collections::{BTreeMap, BTreeSet};

use binomesh::NodeReport;
use binomesh::client::{ClientError, Session};
use binomesh::verify::verify;
use binomesh_overlay::legitimate::is_ring;
use serde::Deserialize;

/// The statements of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The tables of the node.
    pub report: NodeReport,
    /// The peers that the node takes for down, if it keeps such a list.
    pub down: Option<BTreeSet<String>>,
}

/// The last statements of all nodes that were asked, by name.
pub type Observations = BTreeMap<String, Observation>;

impl Observation {
    /// Ask a node for its tables and the list of the peers that it takes for down. `None` if the
    /// answer is not understood.
    pub async fn ask(session: &mut Session) -> Result<Option<Self>, ClientError> {
        Ok(Self::understand(&session.get("/v1/topology").await?))
    }

    fn understand(answer: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Verdicts {
            down: Option<BTreeSet<String>>,
        }
        let Verdicts { down } = serde_json::from_slice(answer).ok()?;
        let report = serde_json::from_slice(answer).ok()?;
        Some(Self { report, down })
    }

    /// Whether this node routes round `peer`: it takes the peer for down, or has it in none of its
    /// tables.
    pub fn avoids(&self, peer: &str) -> bool {
        self.takes_for_down(peer) || !self.refers_to(peer)
    }

    /// Whether this node says that `peer` is down.
    pub fn takes_for_down(&self, peer: &str) -> bool {
        self.down.as_ref().is_some_and(|down| down.contains(peer))
    }

    fn refers_to(&self, peer: &str) -> bool {
        let NodeReport {
            parent,
            children,
            successor,
            predecessor,
            clockwise,
            counterclockwise,
            ..
        } = &self.report;
        let fingers = clockwise.iter().chain(counterclockwise);
        let single = [parent, successor, predecessor].into_iter().chain(fingers);
        let mut all = single.flatten().chain(children);
        all.any(|name| name == peer)
    }

    /// The tables alone, which must not change in a quiet cluster.
    pub fn tables(&self) -> impl PartialEq + '_ {
        let NodeReport {
            epoch,
            rank,
            parent,
            children,
            successor,
            predecessor,
            clockwise,
            counterclockwise,
            ..
        } = &self.report;
        (
            (epoch, rank, parent, children),
            (successor, predecessor, clockwise, counterclockwise),
        )
    }
}

/// Whether every one of these nodes avoids all of `dead`.
pub fn all_avoid(observations: &Observations, dead: &[String]) -> bool {
    let avoids = |observation: &Observation| dead.iter().all(|peer| observation.avoids(peer));
    observations.values().all(avoids)
}

/// Whether the ring passes exactly these nodes, once each, in both directions.
pub fn is_relinked(observations: &Observations) -> bool {
    let numbers: BTreeMap<&str, usize> = observations.keys().map(String::as_str).zip(0..).collect();
    let ways: Vec<[Option<usize>; 2]> = observations
        .values()
        .map(|Observation { report, .. }| {
            [&report.successor, &report.predecessor]
                .map(|name| numbers.get(name.as_deref()?).copied())
        })
        .collect();
    let nodes: Vec<usize> = (0..ways.len()).collect();
    let way = |node: usize, which: usize| *ways.get(node)?.get(which)?;
    is_ring(&nodes, |node| way(node, 0), |node| way(node, 1))
}

/// Whether these nodes, without any others, are one exact binomial graph.
pub fn is_graph(observations: &Observations) -> bool {
    let reports: Vec<NodeReport> = observations
        .values()
        .map(|one| one.report.clone())
        .collect();
    let expected = u32::try_from(reports.len()).unwrap_or(u32::MAX);
    verify(&reports, expected).is_ok()
}

/// How many epochs later the second one is, by the names of two epochs. `None` if they are not of
/// one root's life, or the second one is earlier.
pub fn epochs_between(before: &str, after: &str) -> Option<u64> {
    let parts = |name: &str| -> Option<(String, u64)> {
        let (rest, _nonce) = name.rsplit_once('-')?;
        let (life, counter) = rest.rsplit_once('-')?;
        Some((life.to_owned(), counter.parse().ok()?))
    };
    let ((life, from), (same, to)) = (parts(before)?, parts(after)?);
    (life == same).then(|| to.checked_sub(from)).flatten()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A ring of three nodes, as they report it.
    pub(crate) fn ring() -> Observations {
        let names = ["a", "b", "c"];
        let observation = |number: usize| {
            let near = |step: usize| names.get((number + step) % 3).copied();
            let answer = serde_json::json!({
                "name": near(0), "id": "00000000000000000000000000000000", "pid": 1, "boot": 1,
                "address": "127.0.0.1:1", "rank": number, "epoch": "r-7-1-00", "population": 3,
                "parent": (number > 0).then_some("a"),
                "children": if number == 0 { vec!["b", "c"] } else { vec![] },
                "successor": near(1), "predecessor": near(2),
                "clockwise": [near(1), near(2)], "counterclockwise": [near(2), near(1)],
                "links": [near(1), near(2)], "healthy": true,
                "anchored": true, "ready": true, "reason": null, "lost_count": 0,
            });
            Observation::understand(answer.to_string().as_bytes()).unwrap()
        };
        (0..3)
            .map(|n| (names[n].to_owned(), observation(n)))
            .collect()
    }

    #[test]
    fn a_dead_peer_is_avoided_when_called_down_or_gone_from_all_tables() {
        let mut observations = ring();
        let dead = ["c".to_owned()];
        observations.remove("c");
        assert!(!all_avoid(&observations, &dead));
        let Observation { report, down } = observations.get_mut("a").unwrap();
        *down = Some(BTreeSet::from(["c".to_owned()]));
        assert!(report.children.contains(&"c".to_owned()));
        assert!(observations["a"].avoids("c") && !observations["b"].avoids("c"));
        let report = &mut observations.get_mut("b").unwrap().report;
        report.successor = Some("a".into());
        report.clockwise = vec![Some("a".into())];
        report.counterclockwise = vec![None];
        assert!(all_avoid(&observations, &dead));
    }

    #[test]
    fn the_ring_passes_exactly_the_live() {
        let mut observations = ring();
        assert!(is_relinked(&observations) && is_graph(&observations));
        observations.remove("c");
        assert!(!is_relinked(&observations), "it leads to a dead node");
        let link = |observations: &mut Observations, name: &str, to: &str| {
            let report = &mut observations.get_mut(name).unwrap().report;
            report.successor = Some(to.into());
            report.predecessor = Some(to.into());
        };
        link(&mut observations, "a", "b");
        assert!(!is_relinked(&observations), "one way only");
        link(&mut observations, "b", "a");
        assert!(is_relinked(&observations) && !is_graph(&observations));
    }

    #[test]
    fn a_list_of_the_down_is_read_if_there_is_one() {
        let mut answer = serde_json::to_value(&ring()["a"].report).unwrap();
        answer["down"] = serde_json::json!(["x"]);
        let observation = Observation::understand(answer.to_string().as_bytes()).unwrap();
        assert!(observation.takes_for_down("x") && !observation.takes_for_down("b"));
        assert_eq!(Observation::understand(b"{}"), None);
    }

    #[test]
    fn epochs_are_counted_within_one_life_of_a_root() {
        assert_eq!(epochs_between("aa-17-3-0f", "aa-17-5-0e"), Some(2));
        assert_eq!(epochs_between("aa-17-3-0f", "aa-18-1-0e"), None);
        assert_eq!(epochs_between("aa-17-3-0f", "e"), None);
    }
}
