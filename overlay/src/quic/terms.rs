//! The terms, that is the validity periods, of an identity's documents: its certificate, the
//! authorities that it believes, and their revocation lists. Also, which list belongs to which
//! authority.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

/// A kind of document of an identity that has an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Document {
    /// The node's own certificate, or one between it and its authority.
    Certificate,
    /// The certificate of an authority.
    Authority,
    /// A revocation list. It goes on revoking after its end, which is the time by which the next
    /// list was promised.
    RevocationList,
}

/// The term of a document, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The kind of the document.
    pub document: Document,
    /// The first second of the term.
    pub from: i64,
    /// The last second of the term.
    pub until: i64,
}

/// For each kind of document the term that ends first, of the terms that have not ended at `now`,
/// in seconds since 1970. If all have ended, the one that ended last. An ended document beside a
/// valid one does not matter, such as a former authority.
pub(super) fn terms(
    chain: &[CertificateDer<'_>],
    roots: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
    now: i64,
) -> Vec<Term> {
    let chain = chain.iter().filter_map(|one| of_certificate(one));
    let roots = roots.iter().filter_map(|one| of_certificate(one));
    let lists = lists.iter().filter_map(|one| of_list(one));
    let first = |terms: &mut dyn Iterator<Item = (i64, i64)>| {
        terms.min_by_key(|(_, until)| match *until >= now {
            true => (false, *until),
            false => (true, -until),
        })
    };
    let firsts = [
        (Document::Certificate, first(&mut { chain })),
        (Document::Authority, first(&mut { roots })),
        (Document::RevocationList, first(&mut { lists })),
    ];
    let terms = firsts.into_iter().filter_map(|(document, term)| {
        let (from, until) = term?;
        Some(Term {
            document,
            from,
            until,
        })
    });
    terms.collect()
}

fn of_certificate(der: &[u8]) -> Option<(i64, i64)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    Some((
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    ))
}

fn of_list(der: &[u8]) -> Option<(i64, i64)> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    Some((
        list.last_update().timestamp(),
        list.next_update()?.timestamp(),
    ))
}

/// Whether a list may belong to this authority, or to one below it. It belongs to neither if
/// another key of the same name has signed it: authorities of one cluster may have the same name.
pub(super) fn may_be_of(list: &[u8], authority: &[u8]) -> bool {
    let parsed = (
        CertificateRevocationList::from_der(list),
        X509Certificate::from_der(authority),
    );
    let (Ok((_, list)), Ok((_, authority))) = parsed else {
        // The verifier reports the error.
        return true;
    };
    let is_namesake = list.issuer().as_raw() == authority.subject().as_raw();
    let keys = (signer_of(&list), key_of(&authority));
    !is_namesake || !matches!(keys, (Some(signer), Some(key)) if signer != key)
}

/// Whether a list belongs to one of these authorities, by name and key.
pub(super) fn is_of_any(list: &[u8], authorities: &[CertificateDer<'_>]) -> bool {
    let Ok((_, parsed)) = CertificateRevocationList::from_der(list) else {
        return false;
    };
    authorities.iter().any(|authority| {
        let named = X509Certificate::from_der(authority);
        let is_namesake =
            named.is_ok_and(|(_, it)| it.subject().as_raw() == parsed.issuer().as_raw());
        is_namesake && may_be_of(list, authority)
    })
}

/// Whether a list has the name and the key of one of these authorities, but not its signature. A
/// signature of an unknown kind is left to the verifier.
pub(super) fn is_forged(list: &[u8], authorities: &[CertificateDer<'_>]) -> bool {
    let Ok((_, parsed)) = CertificateRevocationList::from_der(list) else {
        return false;
    };
    let issuers = authorities
        .iter()
        .filter(|one| is_of_any(list, std::slice::from_ref(one)));
    let mut verified = issuers.filter_map(|issuer| {
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        Some(parsed.verify_signature(issuer.public_key()))
    });
    let is_good = |verified| !matches!(verified, Err(X509Error::SignatureVerificationError));
    let first = verified.next();
    first.is_some_and(|first| !is_good(first) && !verified.any(is_good))
}

/// The hash of an authority's key, and its name as text.
pub(super) fn authority_of(certificate: &[u8]) -> Option<([u8; 32], String)> {
    let (_, authority) = X509Certificate::from_der(certificate).ok()?;
    let key = blake3::hash(authority.public_key().raw);
    Some((*key.as_bytes(), authority.subject().to_string()))
}

/// The hash of the issuer's name and key, as the list names them.
pub(super) fn list_id(list: &[u8]) -> Option<[u8; 32]> {
    let (_, parsed) = CertificateRevocationList::from_der(list).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(parsed.issuer().as_raw());
    hasher.update(signer_of(&parsed).unwrap_or_default());
    Some(*hasher.finalize().as_bytes())
}

/// The identifier of the key that signed a list, by the list's word.
fn signer_of<'a>(list: &'a CertificateRevocationList<'_>) -> Option<&'a [u8]> {
    let mut parsed = list.extensions().iter().map(|it| it.parsed_extension());
    parsed.find_map(|extension| match extension {
        ParsedExtension::AuthorityKeyIdentifier(key) => Some(key.key_identifier.as_ref()?.0),
        _ => None,
    })
}

/// The identifier of an authority's key, by its certificate.
fn key_of<'a>(authority: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
    let mut parsed = authority
        .extensions()
        .iter()
        .map(|it| it.parsed_extension());
    parsed.find_map(|extension| match extension {
        ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000_000;

    fn until(end: i64) -> CertificateDer<'static> {
        let date = |at| time::OffsetDateTime::from_unix_timestamp(at).expect("a date");
        let mut params = rcgen::CertificateParams::default();
        (params.not_before, params.not_after) = (date(0), date(end));
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().clone()
    }

    #[test]
    fn the_next_end_of_each_kind_counts_and_a_past_end_only_without_a_later_one() {
        for (ends, expected) in [
            (&[NOW + 9, NOW + 5][..], NOW + 5),
            (&[NOW - 5, NOW + 9], NOW + 9),
            (&[NOW - 9, NOW - 5], NOW - 5),
            (&[NOW], NOW),
        ] {
            let roots: Vec<_> = ends.iter().map(|end| until(*end)).collect();
            let found = terms(&[until(NOW + 1)], &roots, &[], NOW);
            let found: Vec<_> = found.iter().map(|it| (it.document, it.until)).collect();
            let certificate = (Document::Certificate, NOW + 1);
            assert_eq!(found, [certificate, (Document::Authority, expected)]);
        }
    }
}
