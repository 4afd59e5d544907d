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
fn leaves_carry_one_uri_and_both_usages() {
    let issued = authority().issue("n", Validity::days(1)).unwrap();
    let pem = x509_parser::pem::parse_x509_pem(issued.certificate_pem.as_bytes()).unwrap();
    let leaf = pem.1.parse_x509().unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let expected = [GeneralName::URI("spiffe://test.local/node/n")];
    assert_eq!(names.value.general_names, expected);
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth && !leaf.is_ca());
    let now = i64::try_from(wall_clock_ms() / 1000).unwrap();
    assert!(leaf.validity().not_before.timestamp() <= now - SKEW_SECONDS + 5);
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
    // The folder must outlive the test's load, not more.
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
        (&garbage, "n", "certificate", "issue it again"),
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
    // Overdue for its next update, and in force all the same.
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
