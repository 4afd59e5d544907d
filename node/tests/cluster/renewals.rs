//! Signatures across renewals: the new key signs, the former key is believed no more, and messages
//! that are open meanwhile are not lost.

use binomesh::certificate::{Authority, Issued, Validity};
use binomesh::{Due, Seed, SendOptions, Signatures};

use crate::bed::{self, Lone, counter, eventually, signal};
use crate::forger::Forger;
use crate::signatures::{TRUE, next, packet, refused, signed};

/// A node that signs, and a node that requires signatures and reads a revocation list.
struct Renewing {
    dir: tempfile::TempDir,
    authority: Authority,
    revoked: Vec<String>,
    signer: Lone,
    reader: Lone,
    pids: [u32; 2],
}

impl Renewing {
    async fn formed() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let authority = Authority::generate("test.local", Validity::days(1)).expect("generated");
        let [mut signer, mut reader] =
            ["signer", "reader"].map(|name| Lone::prepare(dir.path(), name, &authority));
        signer.config.signatures = Signatures::Sign;
        reader.config.signatures = Signatures::Require;
        reader.config.crl = Some(dir.path().join("crl.pem"));
        let list = authority.revoke(&[], Validity::days(1)).expect("a list");
        std::fs::write(dir.path().join("crl.pem"), list).expect("written");
        let member = signer.start().await;
        reader.config.parent = Some(Seed {
            name: member.name,
            address: member.address.into(),
        });
        let pids = [member.pid, reader.start().await.pid];
        let it = Self {
            dir,
            authority,
            revoked: Vec::new(),
            signer,
            reader,
            pids,
        };
        it.are_members().await;
        it
    }

    async fn are_members(&self) {
        for node in [&self.signer, &self.reader] {
            let client = node.client();
            eventually("both are members", async || {
                let status = client.status().await.ok()?;
                (status.healthy && status.population == Some(2)).then_some(())
            })
            .await;
        }
    }

    /// The credentials by which the signer signs.
    fn credentials(&self) -> Issued {
        let read = |name: &str| {
            let file = self.dir.path().join("signer").join(name);
            std::fs::read_to_string(file).expect("readable")
        };
        Issued {
            certificate_pem: read("node.pem"),
            key_pem: read("node.key"),
            authority_pem: read("ca.pem"),
        }
    }

    /// Gives the signer another certificate and key, and puts the former certificate on the list.
    /// The reader reads the list if `is_read`.
    async fn renew(&mut self, is_read: bool) {
        self.revoked.push(self.credentials().certificate_pem);
        let renewed = self.authority.issue("signer", Validity::days(1));
        let home = self.dir.path().join("signer");
        renewed.expect("issued").save(&home, true).expect("saved");
        Self::read_again(&self.signer, self.pids[0]).await;
        let revoked: Vec<&str> = self.revoked.iter().map(|one| &**one).collect();
        let list = self.authority.revoke(&revoked, Validity::days(1));
        std::fs::write(self.dir.path().join("crl.pem"), list.expect("a list")).expect("written");
        if is_read {
            Self::read_again(&self.reader, self.pids[1]).await;
        }
    }

    async fn read_again(node: &Lone, pid: u32) {
        let renewals = || node.log().matches("credentials renewed").count();
        let before = renewals();
        signal(pid, "HUP");
        eventually("renewed", async || (renewals() > before).then_some(())).await;
    }
}

/// The renewed key signs, and its signatures are believed. A signature by the revoked key is
/// refused, although its chain was known to be good.
#[tokio::test]
async fn a_renewed_key_signs_and_the_former_one_is_believed_no_more() {
    let _turn = bed::turn().await;
    let mut nodes = Renewing::formed().await;
    let (sender, reader) = (nodes.signer.client(), nodes.reader.client());
    let mut inbox = reader.subscribe("#").await.expect("subscribed");
    let former = nodes.credentials();
    for is_renewed in [false, true] {
        if is_renewed {
            nodes.renew(true).await;
            nodes.are_members().await;
        }
        let sending = sender.broadcast("t", TRUE, None);
        let receipt = tokio::time::timeout(bed::PATIENCE, sending).await;
        let receipt = receipt.expect("in time").expect("a receipt");
        assert!(receipt.is_complete(), "{receipt:?}");
        let delivery = next(&mut inbox).await;
        assert!(delivery.id == receipt.id && delivery.signed, "{delivery:?}");
    }
    assert_eq!(refused(&reader, "signature").await, 0);
    let [origin, victim] = [&sender, &reader].map(|client| client.topology());
    let (origin, victim) = (origin.await.expect("told"), victim.await.expect("told"));
    let forger = Forger::linked_by(&nodes.authority, &victim).await;
    let mut copy = packet(&origin, &victim);
    copy.header.errand.id.sequence = 2;
    copy.header.signature = Some(signed(&copy, &former, &nodes.authority));
    forger.hand(victim.id, copy);
    eventually("it is refused", async || {
        (refused(&reader, "signature").await == 1).then_some(())
    })
    .await;
}

/// A message that was published before a renewal and is still open goes out with a new signature.
/// With the former signature alone, the returning reader could not take it.
#[tokio::test]
async fn a_message_open_at_a_renewal_reaches_a_reader_that_rejects_the_former_key() {
    let _turn = bed::turn().await;
    let mut nodes = Renewing::formed().await;
    signal(nodes.pids[1], "KILL");
    let sender = nodes.signer.client();
    let options = SendOptions {
        due: Due::Until(bed::PATIENCE),
        ..SendOptions::default()
    };
    let sending = async { sender.broadcast_with(TRUE, &options).await };
    let renewing = async {
        eventually("it is open", async || {
            let open = counter(&sender, "binomesh_relay_events_total", &["published"]).await;
            (open == 1).then_some(())
        })
        .await;
        nodes.renew(false).await;
        nodes.reader.start().await;
    };
    let (receipt, ()) = tokio::join!(sending, renewing);
    let receipt = receipt.expect("a receipt");
    assert!(receipt.is_complete(), "{receipt:?}");
}
