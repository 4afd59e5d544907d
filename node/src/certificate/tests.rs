use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::credentials::{Credentials, Problem};
use crate::settings::NodeConfig;

fn authority() -> Authority {
    Authority::generate("test.local", Validity::days(10)).unwrap()
}

#[test]
fn a_saved_authority_issues_certificates_that_load() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, node) = (dir.path().join("ca"), dir.path().join("node"));
    authority().save(&ca, false).unwrap();
    let loaded = Authority::load(&ca).unwrap();
    assert_eq!(loaded.trust_domain(), "test.local");
    let issued = loaded.issue("node-7", Validity::days(1)).unwrap();
    issued.save(&node, false).unwrap();
    let credentials = Credentials::load(&NodeConfig::new("node-7", &node, "s")).unwrap();
    let subject = credentials.identity.subject();
    assert_eq!(subject.name, "node-7");
    assert_eq!(subject.trust_domain, "test.local");
    for private in [ca.join("ca.key"), node.join("node.key")] {
        let mode = fs::metadata(private).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(
        fs::metadata(&ca).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn leaves_carry_one_uri_the_name_that_scrapers_verify_and_both_usages() {
    let issued = authority().issue("n", Validity::days(1)).unwrap();
    let pem = x509_parser::pem::parse_x509_pem(issued.certificate_pem.as_bytes()).unwrap();
    let leaf = pem.1.parse_x509().unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let expected = [
        GeneralName::URI("spiffe://test.local/node/n"),
        GeneralName::DNSName("binomesh"),
    ];
    assert_eq!(names.value.general_names, expected);
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth && !leaf.is_ca());
    let now = i64::try_from(wall_clock_ms() / 1000).unwrap();
    assert!(leaf.validity().not_before.timestamp() <= now - SKEW_SECONDS + 5);
}

#[test]
fn a_monitor_is_a_client_by_a_uri_of_its_own_and_no_node() {
    let issued = authority().issue_to(Role::Monitor, "n", Validity::days(1));
    let issued = issued.unwrap();
    let pem = x509_parser::pem::parse_x509_pem(issued.certificate_pem.as_bytes()).unwrap();
    let leaf = pem.1.parse_x509().unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let expected = [GeneralName::URI("spiffe://test.local/monitor/n")];
    assert_eq!(names.value.general_names, expected);
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth);
    let (_dir, config) = saved(&issued, "n");
    assert!(Credentials::load(&config).is_err(), "no node runs with it");
}

#[test]
fn nothing_is_overwritten_without_force() {
    let dir = tempfile::tempdir().unwrap();
    authority().save(dir.path(), false).unwrap();
    let before = fs::read(dir.path().join("ca.key")).unwrap();
    fs::remove_file(dir.path().join("ca.pem")).unwrap();
    let refused = authority().save(dir.path(), false);
    assert!(matches!(refused, Err(CertificateError::Exists(_))));
    assert_eq!(fs::read(dir.path().join("ca.key")).unwrap(), before);
    assert!(!dir.path().join("ca.pem").exists());
    authority().save(dir.path(), true).unwrap();
    assert_ne!(fs::read(dir.path().join("ca.key")).unwrap(), before);
}

#[test]
fn a_leaf_never_outlives_its_authority() {
    let ca = authority();
    let long = Credentials::load(&saved(&ca.issue("n", Validity::days(100)).unwrap(), "n").1);
    assert!(long.is_ok());
    let past = Validity {
        from: 1_000_000,
        until: 2_000_000,
    };
    let old = Authority::generate("test.local", past).unwrap();
    let refused = old.issue("n", Validity::days(1));
    assert!(matches!(refused, Err(CertificateError::AuthorityExpired)));
}

#[test]
fn a_foreign_key_in_the_authority_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    authority().save(dir.path(), false).unwrap();
    authority().save(other.path(), false).unwrap();
    fs::copy(other.path().join("ca.key"), dir.path().join("ca.key")).unwrap();
    let error = Authority::load(dir.path()).err().unwrap().to_string();
    assert!(
        error.contains("ca.key") && error.contains("belong"),
        "{error}"
    );
}

fn saved(issued: &Issued, name: &str) -> (tempfile::TempDir, NodeConfig) {
    let dir = tempfile::tempdir().unwrap();
    issued.save(dir.path(), false).unwrap();
    let config = NodeConfig::new(name, dir.path(), dir.path());
    // The caller keeps the folder until the credentials are loaded.
    (dir, config)
}

#[test]
fn credentials_that_cannot_work_name_file_and_remedy() {
    let ca = authority();
    let good = ca.issue("n", Validity::days(1)).unwrap();
    let expired = Validity {
        from: 1_000_000,
        until: 2_000_000,
    };
    let expired = ca.issue("n", expired).unwrap();
    let now = Validity::days(0).until;
    let early = Validity {
        from: now + 1000,
        until: now + 9000,
    };
    let early = ca.issue("n", early).unwrap();
    let swapped = Issued {
        certificate_pem: good.certificate_pem.clone(),
        key_pem: expired.key_pem.clone(),
        authority_pem: good.authority_pem.clone(),
    };
    let garbage = Issued {
        certificate_pem: "no pem".into(),
        key_pem: good.key_pem.clone(),
        authority_pem: good.authority_pem.clone(),
    };
    for (issued, name, key, wanted) in [
        (&expired, "n", "certificate", "expired"),
        (&early, "n", "certificate", "clock"),
        (&good, "m", "certificate", "correct `name`"),
        (&swapped, "n", "key", "issued with the certificate"),
        (&garbage, "n", "certificate", "issue the certificate again"),
    ] {
        let (_dir, config) = saved(issued, name);
        let error = Credentials::load(&config).err().unwrap();
        assert_eq!(error.key, key);
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let (dir, config) = saved(&good, "n");
    fs::remove_file(dir.path().join("node.key")).unwrap();
    let error = Credentials::load(&config).err().unwrap();
    assert!(matches!(error.problem, Problem::Unreadable(_)), "{error}");
}

#[test]
fn a_node_that_is_revoked_is_told_so_at_its_start() {
    let ca = authority();
    let [revoked, other] = ["n", "m"].map(|name| ca.issue(name, Validity::days(1)).unwrap());
    // The list's next update is overdue, but the list is still in force.
    let past = Validity {
        from: 1_000_000,
        until: 2_000_000,
    };
    let list = ca.revoke(&[&revoked.certificate_pem], past).unwrap();
    for (issued, name, accepted) in [(&revoked, "n", false), (&other, "m", true)] {
        let (dir, mut config) = saved(issued, name);
        let path = dir.path().join("crl.pem");
        fs::write(&path, &list).unwrap();
        config.crl = Some(path);
        let loaded = Credentials::load(&config);
        assert_eq!(loaded.is_ok(), accepted, "{name}: {loaded:?}");
    }
}

/// An authority as earlier versions made it, whose name contains no hash of its key: all such
/// authorities of one trust domain have one name.
fn namesake() -> Authority {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let validity = Validity::days(10);
    let mut params = authority_params("test.local", validity, key.public_key_raw()).unwrap();
    params.distinguished_name = named("Binomesh CA of test.local");
    Authority {
        certificate_pem: params.self_signed(&key).unwrap().pem(),
        trust_domain: "test.local".to_owned(),
        until: validity.until,
        issuer: Issuer::new(params, key),
    }
}

/// A node whose settings name these authorities and lists.
fn node_of(issued: &Issued, (authorities, lists): (&str, &str)) -> (tempfile::TempDir, NodeConfig) {
    let (dir, mut config) = saved(issued, "n");
    fs::write(&config.ca, authorities).unwrap();
    let crl = dir.path().join("lists.pem");
    fs::write(&crl, lists).unwrap();
    config.crl = Some(crl);
    (dir, config)
}

#[test]
fn two_authorities_of_a_cluster_have_two_names() {
    let subject = |authority: &Authority| {
        let pem = x509_parser::pem::parse_x509_pem(authority.certificate_pem.as_bytes()).unwrap();
        pem.1.parse_x509().unwrap().subject().to_string()
    };
    assert_ne!(subject(&authority()), subject(&authority()));
}

/// The two authorities have one name or two. Authorities and lists stand in any order in their
/// files.
#[test]
fn a_list_revokes_under_its_own_authority_alone() {
    for make in [namesake, authority] {
        let authorities = [make(), make()];
        let both = [0, 1].map(|one| authorities[one].certificate_pem.as_str());
        let [bundle, turned] = [both.concat(), [both[1], both[0]].concat()];
        let issue = |one: usize| authorities[one].issue("n", Validity::days(1)).unwrap();
        let (revoked, good) = ([0, 1].map(issue), [0, 1].map(issue));
        let list = |one: usize| {
            let revoked = &revoked[one].certificate_pem;
            authorities[one]
                .revoke(&[revoked], Validity::days(1))
                .unwrap()
        };
        let lists = [0, 1].map(list);
        let [all, all_turned] = [lists.concat(), [&*lists[1], &*lists[0]].concat()];
        for bundle in [&bundle, &turned] {
            for (lists, by_first, by_second) in [
                (&lists[0], true, false),
                (&lists[1], false, true),
                (&all, true, true),
                (&all_turned, true, true),
            ] {
                for (one, is_listed) in [by_first, by_second].into_iter().enumerate() {
                    let accepts = |issued| {
                        let (_dir, config) = node_of(issued, (bundle, lists));
                        Credentials::load(&config)
                            .map(drop)
                            .map_err(|e| e.to_string())
                    };
                    assert_eq!(accepts(&good[one]), Ok(()));
                    let refused = accepts(&revoked[one]);
                    assert_eq!(refused.is_err(), is_listed, "{one}: {refused:?}");
                }
            }
        }
    }
}

#[test]
fn a_file_without_a_list_of_an_authority_is_no_list() {
    let (ca, other) = (authority(), authority());
    let issued = ca.issue("n", Validity::days(1)).unwrap();
    let list = ca
        .revoke(&[&issued.certificate_pem], Validity::days(1))
        .unwrap();
    let stray = other.revoke(&[], Validity::days(1)).unwrap();
    let load = |text: &str| {
        let (_dir, config) = node_of(&issued, (&issued.authority_pem, text));
        Credentials::load(&config)
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let garbage = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    for (text, wanted) in [
        ("", "no revocation list"),
        ("garbage", "no revocation list"),
        (garbage, "no revocation list"),
        (&*issued.authority_pem, "no revocation list"),
        (&*stray, "no revocation list of an authority"),
        (&*list, "revoked"),
        (&*(stray.clone() + &list), "revoked"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    // DER, which most tools write.
    let (_dir, config) = node_of(&issued, (&issued.authority_pem, ""));
    let der = |pem: &str| {
        let parsed = x509_parser::pem::parse_x509_pem(pem.as_bytes());
        parsed.unwrap().1.contents
    };
    let load = |bytes: &[u8]| {
        fs::write(config.crl.as_ref().unwrap(), bytes).unwrap();
        Credentials::load(&config).err().unwrap().to_string()
    };
    let error = load(&der(&list));
    assert!(error.contains("revoked"), "{error}");
    // The second list would be ignored.
    let empty = ca.revoke(&[], Validity::days(1)).unwrap();
    let error = load(&[empty.as_bytes(), &der(&list)].concat());
    assert!(error.contains("binary data"), "{error}");
    // The last byte belongs to the signature.
    let mut forged = der(&empty);
    *forged.last_mut().unwrap() ^= 1;
    let (_dir, config) = node_of(&issued, (&issued.authority_pem, ""));
    fs::write(config.crl.as_ref().unwrap(), forged).unwrap();
    let error = Credentials::load(&config).err().unwrap().to_string();
    assert!(
        error.contains("not accepted") || error.contains("has not signed"),
        "{error}"
    );
}

/// The signature of a list is verified even if no member has a certificate of that authority.
#[test]
fn a_list_that_its_authority_has_not_signed_is_refused() {
    let (ca, other) = (authority(), authority());
    let issued = ca.issue("n", Validity::days(1)).unwrap();
    let both = ca.certificate_pem.clone() + &other.certificate_pem;
    let list = other.revoke(&[], Validity::days(1)).unwrap();
    let mut forged = x509_parser::pem::parse_x509_pem(list.as_bytes())
        .unwrap()
        .1
        .contents;
    *forged.last_mut().unwrap() ^= 1;
    let (_dir, config) = node_of(&issued, (&both, &list));
    assert!(Credentials::load(&config).is_ok());
    fs::write(config.crl.as_ref().unwrap(), forged).unwrap();
    let error = Credentials::load(&config).err().unwrap().to_string();
    assert!(error.contains("has not signed"), "{error}");
}

#[test]
fn a_list_beside_the_authority_needs_no_setting() {
    let ca = authority();
    let issued = ca.issue("n", Validity::days(1)).unwrap();
    let (dir, config) = saved(&issued, "n");
    assert!(Credentials::load(&config).is_ok());
    let list = ca
        .revoke(&[&issued.certificate_pem], Validity::days(1))
        .unwrap();
    fs::write(dir.path().join("crl.pem"), list).unwrap();
    let error = Credentials::load(&config).err().unwrap().to_string();
    assert!(error.contains("revoked"), "{error}");
    // A dangling link does not count as absent.
    let list = dir.path().join("crl.pem");
    fs::remove_file(&list).unwrap();
    std::os::unix::fs::symlink("nowhere", &list).unwrap();
    let error = Credentials::load(&config).err().unwrap().to_string();
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn an_identity_says_when_its_documents_end() {
    let ca = authority();
    let issued = ca.issue("n", Validity::days(1)).unwrap();
    let list = ca.revoke(&[], Validity::days(3)).unwrap();
    let (_dir, config) = node_of(&issued, (&issued.authority_pem, &list));
    let terms = Credentials::load(&config).unwrap().identity.terms();
    let now = Validity::days(0).until;
    let days: Vec<i64> = terms
        .iter()
        .map(|term| (term.until - now + 60) / DAY_SECONDS)
        .collect();
    assert_eq!(days, [1, 10, 3]);
}
