//! Lives and identities of real processes: lost state, copied certificates, a process that
//! goes on after another one has taken its place.

use std::path::Path;
use std::time::Duration;

use binomesh::Seed;
use binomesh::certificate::{Authority, Validity};
use binomesh::client::Client;
use binomesh::cluster::Member;

use crate::bed::{self, Lone, counter, eventually, signal};

/// A root and two children, the last of which is `x`.
struct Three {
    dir: tempfile::TempDir,
    authority: Authority,
    nodes: [Lone; 3],
    members: Vec<Member>,
}

impl Three {
    /// `prepare` gets `x` before `x` starts.
    async fn formed(prepare: impl FnOnce(&Lone)) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let authority = Authority::generate("test.local", Validity::days(1)).expect("generated");
        let names = ["root", "other", "x"];
        let mut nodes = names.map(|name| Lone::prepare(dir.path(), name, &authority));
        prepare(&nodes[2]);
        let mut members = vec![nodes[0].start().await];
        for node in &mut nodes[1..] {
            node.config.parent = Some(seed(&members[0]));
            members.push(node.start().await);
        }
        let three = Self {
            dir,
            authority,
            nodes,
            members,
        };
        three.are_whole().await;
        three
    }

    fn client(&self, at: usize) -> Client {
        self.nodes[at].client()
    }

    /// Waits until the root and the other node count three members, whichever process is `x`.
    async fn are_whole(&self) {
        for at in [0, 1] {
            is_member(&self.nodes[at]).await;
        }
    }

    /// A second process of `x` on its way into the cluster, below `parent`.
    async fn clone_of_x(&self, parent: usize) -> (Lone, Member) {
        let mut clone = Lone::prepare(&self.dir.path().join("clone"), "x", &self.authority);
        clone.config.parent = Some(seed(&self.members[parent]));
        let member = clone.start().await;
        (clone, member)
    }
}

fn seed(member: &Member) -> Seed {
    Seed {
        name: member.name.clone(),
        address: member.address.into(),
    }
}

async fn is_member(node: &Lone) {
    let client = node.client();
    eventually("it is one of three", async || {
        let status = client.status().await.ok()?;
        (status.healthy && status.population == Some(3)).then_some(())
    })
    .await;
}

fn warned(log: &str, words: &[&str]) -> bool {
    let mut lines = log.lines().filter(|line| line.contains("WARN"));
    lines.any(|line| words.iter().all(|word| line.contains(word)))
}

#[tokio::test]
async fn a_copied_certificate_stays_outside_until_the_first_process_is_gone() {
    let _turn = bed::turn().await;
    let three = Three::formed(|_| ()).await;
    let epoch = three.client(0).status().await.expect("asked").epoch;
    let there = three.members[2].address.to_string();
    let (clone, member) = three.clone_of_x(1).await;
    eventually("the clone knows why it is outside", async || {
        let words = ["has the identity of this node", &*there];
        warned(&clone.log(), &words).then_some(())
    })
    .await;
    let here = member.address.to_string();
    eventually("a member says where both are", async || {
        let words = ["two processes have one identity", &*there, &*here];
        warned(&three.nodes[1].log(), &words).then_some(())
    })
    .await;
    let client = three.client(1);
    assert!(counter(&client, "binomesh_transport_duplicates_total", &[]).await > 0);
    for at in 0..3 {
        let status = three.client(at).status().await.expect("asked");
        assert!(status.healthy, "{status:?}");
        assert_eq!((status.population, &status.epoch), (Some(3), &epoch));
    }
    assert_eq!(clone.client().status().await.expect("asked").links, 0);
    signal(three.members[2].pid, "KILL");
    is_member(&clone).await;
    three.are_whole().await;
}

/// The first process is paused while the second becomes a member.
#[tokio::test]
async fn a_process_that_goes_on_after_its_successor_came_ends_for_good() {
    let _turn = bed::turn().await;
    let mut three = Three::formed(|_| ()).await;
    signal(three.members[2].pid, "STOP");
    let (clone, _) = three.clone_of_x(1).await;
    is_member(&clone).await;
    signal(three.members[2].pid, "CONT");
    assert_eq!(three.nodes[2].ended().await, Some(5));
    let log = three.nodes[2].log();
    assert!(
        log.contains("a newer process has the identity of this node"),
        "{log}"
    );
    is_member(&clone).await;
    three.are_whole().await;
}

/// The boot of the member's former life was far ahead of the clock. The member's state folder is
/// new, and its address is another one.
#[tokio::test]
async fn a_member_that_lost_its_state_and_time_is_back_at_once_and_heard() {
    let _turn = bed::turn().await;
    let ahead = |lone: &Lone| {
        let boot = lone.state().join("boot");
        std::fs::create_dir_all(lone.state()).expect("made");
        std::fs::write(boot, "4000000000000").expect("written");
    };
    let mut three = Three::formed(ahead).await;
    let heard = async |node: &Lone| {
        let client = node.client();
        let sent = client.broadcast("t", "heard", Some(Duration::from_secs(20)));
        let receipt = sent.await.expect("a receipt");
        assert!(receipt.unreached.is_empty(), "{receipt:?}");
    };
    heard(&three.nodes[2]).await;
    for _ in 0..2 {
        let before = three.client(2).status().await.expect("asked").boot;
        signal(three.members[2].pid, "KILL");
        assert_eq!(three.nodes[2].ended().await, None);
        std::fs::remove_dir_all(three.nodes[2].state()).expect("removed");
        let begun = bed::now();
        three.members[2] = three.nodes[2].start().await;
        is_member(&three.nodes[2]).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(20), "it took {took:?}");
        let status = three.client(2).status().await.expect("asked");
        assert!(status.boot > before, "{status:?}");
        let noted = std::fs::read_to_string(three.nodes[2].state().join("boot"));
        assert_eq!(noted.expect("noted").trim(), status.boot.to_string());
        heard(&three.nodes[2]).await;
        three.are_whole().await;
    }
}

/// There is no boot above the greatest number, and the command says so.
#[tokio::test]
async fn the_greatest_number_is_no_boot() {
    let dir = tempfile::tempdir().expect("a folder");
    let authority = Authority::generate("test.local", Validity::days(1)).expect("generated");
    for greatest in [u64::MAX, u64::MAX - 1] {
        let lone = Lone::prepare(dir.path(), &format!("x{greatest}"), &authority);
        std::fs::create_dir_all(lone.state()).expect("made");
        std::fs::write(lone.state().join("boot"), greatest.to_string()).expect("written");
        let file = lone.write();
        let path = |path: &Path| path.display().to_string();
        let ran = bed::ran(&["run", "--config", &path(&file)], b"").await;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(
            said.contains("boot") && said.contains("remove the file"),
            "{said}"
        );
    }
}
