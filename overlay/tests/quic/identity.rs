//! An identity that cannot be used is refused with its reason.

use binomesh_overlay::quic::{Identity, IdentityError, SubjectError};
use rcgen::date_time_ymd;

use crate::bed::{Authority, Paper, id, name_it};

fn read(authority: &Authority, paper: &Paper) -> Result<Identity, IdentityError> {
    let (cert, key) = (&paper.certificate_pem, &paper.key_pem);
    Identity::from_pem(
        cert.as_bytes(),
        key.as_bytes(),
        authority.pem.as_bytes(),
        b"",
    )
}

#[test]
fn a_good_identity_has_the_id_and_name_of_its_uri() {
    let authority = Authority::new("one");
    let identity = read(&authority, &authority.issue_to("a")).expect("valid");
    assert_eq!((identity.id(), identity.name()), (id("a"), "a"));
}

#[test]
fn a_bad_identity_is_refused_with_its_reason() {
    use IdentityError as E;
    let (authority, foreign) = (Authority::new("one"), Authority::new("other"));
    let good = || authority.issue_to("a");
    let refuse = |paper: Paper| read(&authority, &paper).expect_err("refused");

    let mut paper = good();
    paper.key_pem = authority.issue_to("b").key_pem;
    assert!(matches!(refuse(paper), E::KeyMismatch(name) if name == "a"));

    let mut paper = good();
    paper.key_pem = "no key".to_owned();
    assert!(matches!(
        refuse(paper),
        E::Unreadable {
            what: "private key",
            ..
        }
    ));

    let mut paper = good();
    paper.certificate_pem = String::new();
    assert!(matches!(
        refuse(paper),
        E::Unreadable {
            what: "certificate",
            ..
        }
    ));

    let paper = authority.issue(|params| {
        name_it(params, "a");
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    assert!(matches!(refuse(paper), E::Expired { name, .. } if name == "a"));

    let paper = authority.issue(|params| {
        name_it(params, "a");
        params.not_before = date_time_ymd(4000, 1, 1);
    });
    assert!(matches!(refuse(paper), E::NotYetValid { name, .. } if name == "a"));

    let paper = authority.issue(|_| ());
    assert!(matches!(refuse(paper), E::Subject(SubjectError::NoUri)));

    let paper = authority.issue(|params| {
        name_it(params, "a");
        name_it(params, "b");
    });
    assert!(matches!(
        refuse(paper),
        E::Subject(SubjectError::SeveralUris(2))
    ));

    let error = refuse(foreign.issue_to("a"));
    assert!(matches!(error, E::NotAccepted { .. }), "{error}");
}
