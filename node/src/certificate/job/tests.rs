use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use binomesh_overlay::PeerId;

use super::*;
use crate::credentials::{Credentials, Problem};
use crate::settings::NodeConfig;
use crate::spiffe::node_uri;

const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

fn authority(job_id: &str) -> JobAuthority {
    let secret = JobSecret::parse(SECRET).unwrap();
    secret.authority(job_id).unwrap()
}

/// A file of this mode with this text.
fn file(dir: &Path, mode: u32, text: &str) -> SecretSource {
    use std::io::Write;
    let path = dir.join(format!("secret-{mode:o}-{}", text.len()));
    let options = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&path);
    options.unwrap().write_all(text.as_bytes()).unwrap();
    SecretSource::File(path)
}

#[test]
fn each_process_derives_the_same_authority_and_a_key_of_its_own() {
    let (one, other) = (authority("17-0"), authority("17-0"));
    assert_eq!(one.certificate_pem, other.certificate_pem);
    let (first, second) = (one.issue("n").unwrap(), other.issue("n").unwrap());
    assert_ne!(first.key_pem, second.key_pem);
    assert_eq!(first.authority_pem, second.authority_pem);
}

#[test]
fn another_job_or_another_secret_is_another_authority() {
    let one = authority("17-0");
    assert_ne!(one.certificate_pem, authority("17-1").certificate_pem);
    // Two ids with the same trust domain.
    let (at, dash) = (authority("a@1"), authority("a-1"));
    assert_eq!(at.trust_domain, dash.trust_domain);
    assert_ne!(at.certificate_pem, dash.certificate_pem);
    let secret = JobSecret::generate().unwrap();
    let other = JobSecret::parse(&secret)
        .unwrap()
        .authority("17-0")
        .unwrap();
    assert_ne!(one.certificate_pem, other.certificate_pem);
    assert_eq!(one.trust_domain, "job-17-0");
}

#[test]
fn a_node_has_credentials_from_a_secret_alone() {
    let dir = tempfile::tempdir().unwrap();
    let source = file(dir.path(), 0o600, &JobSecret::generate().unwrap());
    let config = NodeConfig::of_job("c001.1", source, "17-0", dir.path());
    config.check().unwrap();
    let credentials = Credentials::load(&config).unwrap();
    let subject = credentials.identity.subject();
    assert_eq!(subject.trust_domain, "job-17-0");
    assert_eq!(subject.id, PeerId::of_uri(&node_uri("job-17-0", "c001.1")));
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        1,
        "all else is in memory"
    );
}

#[test]
fn a_source_without_a_valid_secret_is_refused_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = |text: &str| SecretSource::from(text.to_owned());
    let variable = |name: &str| SecretSource::from(format!("env:{name}"));
    let base64 = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=";
    let zeros = "00".repeat(32);
    for (source, words) in [
        (path("/nowhere/secret"), "cannot be read"),
        (path(SECRET), "is the secret itself"),
        (variable(SECRET), "is the secret itself"),
        (path(&format!(" {SECRET}")), "is the secret itself"),
        (
            path(&format!("/etc/binomesh/{SECRET}")),
            "is the secret itself",
        ),
        (variable(&format!("0x{SECRET}")), "is the secret itself"),
        (path(base64), "is the secret itself"),
        (
            path("/run/secrets/Job-secret-of-Cluster-17"),
            "cannot be read",
        ),
        (path("job-secret-of-the-cluster-17"), "cannot be read"),
        (
            variable("BINOMESH_TEST_IS_NOT_SET"),
            "is not set; export the variable",
        ),
        (
            path(&dir.path().display().to_string()),
            "is a folder, not a file; give the path",
        ),
        (file(dir.path(), 0o640, SECRET), "mode 0640"),
        (file(dir.path(), 0o604, SECRET), "mode 0604"),
        (file(dir.path(), 0o600, ""), "holds nothing"),
        (
            file(dir.path(), 0o600, "00010203040506070809"),
            "less than 128 bits",
        ),
        (file(dir.path(), 0o600, &zeros), "a pattern"),
        (
            file(dir.path(), 0o600, &SECRET.repeat(129)),
            "more than 4,096",
        ),
        (
            file(dir.path(), 0o600, &SECRET.repeat(999)),
            "more than 4,096",
        ),
        (
            file(dir.path(), 0o600, "correct horse battery staple"),
            "hexadecimal",
        ),
        (file(dir.path(), 0o600, &SECRET[1..]), "hexadecimal"),
    ] {
        let config = NodeConfig::of_job("n", source, "17-0", dir.path());
        let shown = Credentials::load(&config).unwrap_err().to_string();
        assert!(shown.contains(words), "{shown}");
        assert!(shown.contains("job_secret"), "{shown}");
        assert!(
            !shown.contains(SECRET) && !shown.contains(base64),
            "{shown}"
        );
    }
}

#[test]
fn a_secret_in_memory_is_not_in_a_log() {
    let secret = JobSecret::parse(SECRET).unwrap();
    assert_eq!(format!("{secret:?}"), "JobSecret");
    let problem = Problem::Secret(SecretError::Itself);
    assert!(problem.to_string().contains("itself"));
}
