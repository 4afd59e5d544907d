//! A node believes a signature by the key of the origin, and nothing else.

use binomesh_overlay::quic::{Forged, Identity, Notary, NotaryError};
use rcgen::{KeyPair, SerialNumber, date_time_ymd};
use rustls_pki_types::CertificateDer;

use crate::bed::{Authority, id, name_it};

const DIGEST: [u8; 32] = [7; 32];

fn signs(identity: &Identity) -> Notary {
    Notary::new(identity, true).expect("a notary")
}

#[test]
fn a_signature_stands_for_one_origin_and_one_content() {
    let authority = Authority::new("one");
    let (a, b) = (authority.identity("a"), authority.identity("b"));
    let signature = signs(&a).sign(&DIGEST).expect("signed");
    let mut reader = Notary::new(&b, false).expect("a notary");
    assert_eq!(reader.sign(&DIGEST), None, "it only reads");
    // In the second pass the reader remembers the chain.
    for _ in 0..2 {
        assert_eq!(reader.verify(id("z"), id("a"), &DIGEST, &signature), Ok(()));
        let other = reader.verify(id("z"), id("a"), &[8; 32], &signature);
        assert_eq!(other, Err(Forged::Content));
        let other = reader.verify(id("z"), id("b"), &DIGEST, &signature);
        assert_eq!(other, Err(Forged::OtherSigner(id("a"))));
    }
    // A signature by the key of `b`, with the certificate of `a`.
    let by_b = signs(&b).sign(&DIGEST).expect("signed");
    let chain = |signature: &[u8]| {
        let length = usize::from(signature[2]) << 8 | usize::from(signature[3]);
        signature[4 + length..].to_vec()
    };
    let bare = &by_b[..by_b.len() - chain(&by_b).len()];
    let mixed = [bare, &chain(&signature)].concat();
    let refused = reader.verify(id("z"), id("a"), &DIGEST, &mixed);
    assert_eq!(refused, Err(Forged::Content));
}

/// Damage at any byte is an error and no panic.
#[test]
fn a_damaged_signature_is_not_believed() {
    let authority = Authority::new("one");
    let identity = authority.identity("a");
    let signature = signs(&identity).sign(&DIGEST).expect("signed");
    let mut reader = signs(&identity);
    for at in 0..signature.len() {
        let mut damaged = signature.to_vec();
        damaged[at] ^= 0x21;
        // The signatures of each round come over a link of their own, because one link may not have
        // so many chains judged.
        let from = id(&at.to_string());
        for bytes in [&damaged, &signature[..at]] {
            let refused = reader.verify(from, id("a"), &DIGEST, bytes);
            assert!(refused.is_err() && refused != Err(Forged::Unjudged), "{at}");
        }
    }
    assert_eq!(reader.verify(id("z"), id("a"), &DIGEST, &signature), Ok(()));
}

/// A chain whose signature does not fit is not remembered, and each signer has one remembered
/// chain. So no signer can fill the memory alone.
#[test]
fn a_chain_is_remembered_once_a_signature_fits_and_the_last_one_of_each_signer() {
    let authority = Authority::new("one");
    let [first, second, other] = ["a", "a", "b"].map(|name| authority.identity(name));
    let [first, second, other] =
        [first, second, other].map(|identity| signs(&identity).sign(&DIGEST).expect("signed"));
    let mut reader = signs(&authority.identity("c"));
    let (a, b) = (id("a"), id("b"));
    for (what, origin, digest, signature, is_good, judged) in [
        ("another", b, &DIGEST, &other, true, 1),
        ("fits nothing", a, &[8; 32], &first, false, 2),
        ("is not remembered", a, &[8; 32], &first, false, 3),
        ("fits", a, &DIGEST, &first, true, 4),
        ("is remembered", a, &DIGEST, &first, true, 4),
        ("and fits not all", a, &[8; 32], &first, false, 4),
        ("renewed", a, &DIGEST, &second, true, 5),
        ("remembered as well", a, &DIGEST, &second, true, 5),
        ("the former is not", a, &DIGEST, &first, true, 6),
        ("the other is", b, &DIGEST, &other, true, 6),
        ("whose is it", b, &DIGEST, &first, false, 6),
    ] {
        let verified = reader.verify(id("z"), origin, digest, signature);
        let found = (verified.is_ok(), reader.chains_judged());
        assert_eq!(found, (is_good, judged), "{what}: {verified:?}");
    }
}

/// In a made-up chain all names fit, and all signatures but one. Each such chain costs some
/// verifications, so only a limited number of such chains is judged for one link.
#[test]
fn made_up_chains_are_judged_a_few_times_for_each_link_and_known_ones_always() {
    let ours = Authority::new("one");
    // The reader remembers the chain that it refused last, so two chains take turns.
    let forged = [made_up("a"), made_up("a")];
    let good = signs(&ours.identity("b")).sign(&DIGEST).expect("signed");
    let mut reader = signs(&ours.identity("c"));
    let mut verify = |from, origin, signature| {
        let verified = reader.verify(id(from), id(origin), &DIGEST, signature);
        (verified, reader.chains_judged())
    };
    assert_eq!(verify("liar", "b", &good), (Ok(()), 1));
    let mut judged = 1;
    let mut unjudged = 0;
    for forged in forged.iter().cycle().take(1000) {
        match verify("liar", "a", forged) {
            (Err(Forged::Certificate(_)), now) => judged = now,
            (Err(Forged::RefusedBefore | Forged::Unjudged), now) => {
                assert_eq!(now, judged);
                unjudged += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(judged + unjudged, 1001);
    // One more chain is judged for each second that the loop takes.
    assert!((17..200).contains(&judged), "{judged}");
    assert_eq!(verify("liar", "b", &good), (Ok(()), judged));
    // A third chain is needed: either of the first two may be the chain that was refused last.
    let (elsewhere, now) = verify("another", "a", &made_up("a"));
    assert!(matches!(elsewhere, Err(Forged::Certificate(_))));
    assert_eq!(now, judged + 1);
}

/// Such chains come from a member that this node's lists revoke and its neighbours' lists do not
/// revoke yet.
#[test]
fn a_chain_that_is_refused_again_and_again_uses_up_no_link() {
    let ours = Authority::new("one");
    let forged = made_up("a");
    let mut reader = signs(&ours.identity("c"));
    let mut refused = Vec::new();
    for _ in 0..1000 {
        let verified = reader.verify(id("honest"), id("a"), &DIGEST, &forged);
        refused.push(verified.expect_err("refused"));
    }
    assert!(matches!(refused[0], Forged::Certificate(_)));
    assert_eq!(refused[1], Forged::RefusedBefore);
    let judged = reader.chains_judged();
    assert!((1..16).contains(&judged), "{judged}");
    let good = signs(&ours.identity("b")).sign(&DIGEST).expect("signed");
    let verified = reader.verify(id("honest"), id("b"), &DIGEST, &good);
    assert_eq!(verified, Ok(()));
}

/// A signature with a chain of the liar's own authority.
fn made_up(name: &str) -> bytes::Bytes {
    let authority = Authority::new("one");
    let paper = authority.issue_to(name);
    let chain = vec![paper.certificate, authority.certificate.clone()];
    let roots = vec![authority.certificate.clone()];
    let identity = Identity::from_der(chain, paper.key, roots, Vec::new()).expect("valid");
    signs(&identity).sign(&DIGEST).expect("signed")
}

#[test]
fn only_a_certificate_that_holds_now_is_believed() {
    let (ours, foreign) = (Authority::new("one"), Authority::new("other"));
    let serial = SerialNumber::from(77);
    let revoked = ours.issue(|params| {
        name_it(params, "a");
        params.serial_number = Some(serial.clone());
    });
    let chain = vec![revoked.certificate];
    let roots = || vec![ours.certificate.clone()];
    let revoked = Identity::from_der(chain, revoked.key, roots(), Vec::new()).expect("valid");
    let signature = signs(&revoked).sign(&DIGEST).expect("signed");
    let mut before = signs(&ours.identity("b"));
    assert_eq!(before.verify(id("z"), id("a"), &DIGEST, &signature), Ok(()));
    let list = vec![ours.revoke(serial)];
    let mut after = signs(&ours.identity_with("b", list));
    let refused = after.verify(id("z"), id("a"), &DIGEST, &signature);
    let is_of_certificate = |refused| matches!(refused, Err(Forged::Certificate(_)));
    assert!(is_of_certificate(refused));

    let elsewhere = signs(&foreign.identity("a")).sign(&DIGEST);
    let refused = before.verify(id("z"), id("a"), &DIGEST, &elsewhere.expect("signed"));
    assert!(is_of_certificate(refused));
}

/// The signature fits the certificate's key, so only the certificate's dates can refuse it.
#[test]
fn a_certificate_that_has_expired_or_is_not_valid_yet_is_not_believed() {
    let ours = Authority::new("one");
    let mut reader = signs(&ours.identity("b"));
    let key = KeyPair::generate().expect("a key").serialize_der();
    let key = || KeyPair::try_from(&key[..]).expect("the same key");
    let good = ours.issue_with(key(), |params| name_it(params, "a"));
    let (roots, chain) = (vec![ours.certificate.clone()], vec![good.certificate]);
    let identity = Identity::from_der(chain, good.key, roots, Vec::new()).expect("valid");
    let signature = signs(&identity).sign(&DIGEST).expect("signed");
    let bare = 4 + usize::from(u16::from_be_bytes([signature[2], signature[3]]));
    let (past, future) = (date_time_ymd(2020, 1, 1), date_time_ymd(4000, 1, 1));
    for (from, until, is_good) in [
        (None, None, true),
        (None, Some(past), false),
        (Some(future), None, false),
    ] {
        let dated = ours.issue_with(key(), |params| {
            name_it(params, "a");
            params.not_before = from.unwrap_or(params.not_before);
            params.not_after = until.unwrap_or(params.not_after);
        });
        let length = (dated.certificate.len() as u16).to_be_bytes();
        let dated = [&signature[..bare], &length, &dated.certificate].concat();
        let judged = reader.verify(id("z"), id("a"), &DIGEST, &dated);
        let is_of_certificate = matches!(judged, Err(Forged::Certificate(_)));
        assert_eq!((judged.is_ok(), is_of_certificate), (is_good, !is_good));
    }
}

#[test]
fn every_kind_of_key_signs_but_a_chain_that_is_too_long_does_not() {
    let authority = Authority::new("one");
    for algorithm in [
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
    ] {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let paper = authority.issue_with(key, |params| name_it(params, "a"));
        let roots = vec![authority.certificate.clone()];
        let chain = vec![paper.certificate];
        let identity = Identity::from_der(chain, paper.key, roots, Vec::new()).expect("valid");
        let signature = signs(&identity).sign(&DIGEST).expect("signed");
        let mut reader = signs(&authority.identity("b"));
        assert_eq!(reader.verify(id("z"), id("a"), &DIGEST, &signature), Ok(()));
    }
    let paper = authority.issue_to("a");
    let chain: Vec<CertificateDer<'_>> = [paper.certificate]
        .into_iter()
        .chain(std::iter::repeat_n(authority.certificate.clone(), 8))
        .collect();
    let roots = vec![authority.certificate.clone()];
    let identity = Identity::from_der(chain, paper.key, roots, Vec::new()).expect("valid");
    let refused = Notary::new(&identity, true).expect_err("too long");
    assert!(matches!(refused, NotaryError::ChainTooLong(_)), "{refused}");
    let quiet = Notary::new(&identity, false).expect("it joins all the same");
    assert_eq!((quiet.sign_life(1), quiet.sign_goodbye(1)), (None, None));
}

/// Each statement is believed for its purpose, its peer and its boot only.
#[test]
fn lives_and_goodbyes_are_signed_without_signatures_and_never_taken_for_each_other() {
    let authority = Authority::new("one");
    let (a, b) = (authority.identity("a"), authority.identity("b"));
    let signer = Notary::new(&a, false).expect("a notary");
    let mut reader = Notary::new(&b, false).expect("a notary");
    // The digest begins with the bytes that follow the context in the statement of a life.
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(id("a").as_bytes());
    digest[16..24].copy_from_slice(&7_u64.to_be_bytes());
    let life = signer.sign_life(7).expect("signed");
    let goodbye = signer.sign_goodbye(7).expect("signed");
    let content = signs(&a).sign(&digest).expect("signed");
    assert!(life.len() <= Notary::MAX_STATEMENT);
    assert_eq!(signer.sign(&digest), None, "packets stay unsigned");
    for (statement, is_life, is_goodbye, is_content) in [
        (&life, true, false, false),
        (&goodbye, false, true, false),
        (&content, false, false, true),
    ] {
        // The chain is judged once for all purposes.
        let judged = reader.verify_life(id("z"), id("a"), 7, statement);
        assert_eq!(judged.is_ok(), is_life, "{judged:?}");
        let judged = reader.verify_goodbye(id("z"), id("a"), 7, statement);
        assert_eq!(judged.is_ok(), is_goodbye, "{judged:?}");
        let judged = reader.verify(id("z"), id("a"), &digest, statement);
        assert_eq!(judged.is_ok(), is_content, "{judged:?}");
    }
    let other_boot = reader.verify_life(id("z"), id("a"), 8, &life);
    assert_eq!(other_boot, Err(Forged::Content));
    let other_boot = reader.verify_goodbye(id("z"), id("a"), 6, &goodbye);
    assert_eq!(other_boot, Err(Forged::Content));
    let other_peer = reader.verify_life(id("z"), id("b"), 7, &life);
    assert_eq!(other_peer, Err(Forged::OtherSigner(id("a"))));
}
