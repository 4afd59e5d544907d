//! The identity of this node: its certificate and key, and the authorities that it believes.
//!
//! A certificate names its holder by exactly one URI, a SPIFFE id such as
//! `spiffe://cluster/node/node-7`. The hash of the URI is the [`PeerId`], and its last path segment
//! is the name. The key may change; the identity stays.

use std::collections::BTreeMap;
use std::time::Duration;

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::book::NAME_MAX;
use super::terms::{Term, authority_of, is_forged, is_of_any, list_id, terms};
use crate::PeerId;

/// The longest SPIFFE id, in bytes: the SPIFFE standard, section 2.3.
const URI_MAX: usize = 2048;
/// The longest time for which a certificate keeps its link up, even if it is valid for longer:
/// timers could not represent dates far beyond a year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// The holder of a certificate, as the certificate names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The identity of the holder.
    pub id: PeerId,
    /// The trust domain of the URI.
    pub trust_domain: String,
    /// The last path segment of the URI: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The part of the URI before the name, up to the last `/`: the same for all members of a
    /// cluster.
    pub form: String,
}

/// Why a certificate does not name a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The bytes are no certificate.
    #[error("the certificate is malformed")]
    Unreadable,
    /// The certificate has no URI among its alternative names.
    #[error("the certificate has no SPIFFE URI")]
    NoUri,
    /// The certificate has more than one URI.
    #[error("the certificate has {0} URIs; expected exactly one")]
    SeveralUris(usize),
    /// The URI is not `spiffe://domain/…/name` within its bounds.
    #[error(
        "{0:?} is not a SPIFFE id that ends in a name of at most 128 letters, digits, `-`, `_` and `.`"
    )]
    NotSpiffe(String),
}

impl Subject {
    /// Read the subject of a certificate. Nothing is verified here.
    pub fn of_certificate(der: &[u8]) -> Result<Self, SubjectError> {
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|_| SubjectError::Unreadable)?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|_| SubjectError::Unreadable)?;
        let names = names.map(|extension| extension.value.general_names.as_slice());
        let mut uris = names.unwrap_or_default().iter().filter_map(as_uri);
        match (uris.next(), uris.count()) {
            (None, _) => Err(SubjectError::NoUri),
            (Some(uri), 0) => Self::of_uri(uri),
            (Some(_), more) => Err(SubjectError::SeveralUris(1 + more)),
        }
    }

    fn of_uri(uri: &str) -> Result<Self, SubjectError> {
        let path = uri
            .strip_prefix("spiffe://")
            .filter(|_| uri.len() <= URI_MAX);
        let split = path.and_then(|path| path.split_once('/'));
        let named = split
            .filter(|(domain, _)| !domain.is_empty())
            .and_then(|(domain, path)| Some((domain, path.rsplit('/').next()?)))
            .filter(|(_, name)| is_name(name));
        match named {
            Some((domain, name)) => Ok(Self {
                id: PeerId::of_uri(uri),
                trust_domain: domain.to_owned(),
                name: name.to_owned(),
                form: uri.strip_suffix(name).unwrap_or_default().to_owned(),
            }),
            None => Err(SubjectError::NotSpiffe(uri.chars().take(200).collect())),
        }
    }
}

/// Whether a text can be the last segment of a SPIFFE id, by the SPIFFE standard, section 2.2, and
/// has at most [`NAME_MAX`] bytes. Such a text is safe to show.
pub fn is_name(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

fn as_uri<'a>(name: &GeneralName<'a>) -> Option<&'a str> {
    match name {
        GeneralName::URI(uri) => Some(uri),
        _ => None,
    }
}

/// A node's certificate chain and key, and the authorities that it believes.
#[derive(Debug)]
pub struct Identity {
    pub(super) subject: Subject,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) roots: Vec<CertificateDer<'static>>,
    pub(super) revocations: Vec<CertificateRevocationListDer<'static>>,
}

/// The hash of the name and the key of a list's issuer.
pub type ListId = [u8; 32];

/// The issuer of a revocation list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListIssuer {
    name: String,
    /// The hash of its key, if it is one of the believed authorities itself.
    root: Option<[u8; 32]>,
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A PEM text does not parse, or lacks a section.
    #[error("the {what} cannot be read: {reason}")]
    Unreadable {
        /// The name of the input.
        what: &'static str,
        /// The problem with the input.
        reason: String,
    },
    /// The certificate does not name a peer.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The private key belongs to another certificate.
    #[error("the private key does not match the certificate of `{0}`")]
    KeyMismatch(String),
    /// The certificate is no longer valid.
    #[error("the certificate of `{name}` expired at {at}")]
    Expired {
        /// The name in the certificate.
        name: String,
        /// The date of its end.
        at: String,
    },
    /// The certificate is not valid yet.
    #[error("the certificate of `{name}` is not valid before {at}")]
    NotYetValid {
        /// The name in the certificate.
        name: String,
        /// The date of its beginning.
        at: String,
    },
    /// The authorities do not vouch for the node's own certificate, or a
    /// revocation list is not usable.
    #[error("the certificate of `{name}` is not accepted by its own authorities: {reason}")]
    NotAccepted {
        /// The name in the certificate.
        name: String,
        /// The answer of the verifier.
        reason: String,
    },
}

impl Identity {
    /// Read an identity from PEM texts: the chain (leaf first), its key, the authorities, and the
    /// revocation lists; there may be no lists.
    pub fn from_pem(
        cert_pem: &[u8],
        key_pem: &[u8],
        ca_pem: &[u8],
        crl_pem: &[u8],
    ) -> Result<Self, IdentityError> {
        let key = PrivateKeyDer::from_pem_slice(key_pem)
            .map_err(|error| unreadable("private key", error))?;
        let revocations = CertificateRevocationListDer::pem_slice_iter(crl_pem)
            .collect::<Result<_, _>>()
            .map_err(|error| unreadable("revocation list", error))?;
        Self::from_der(
            certificates("certificate", cert_pem)?,
            key,
            certificates("certificate authority", ca_pem)?,
            revocations,
        )
    }

    /// Check and keep an identity given in DER.
    pub fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        roots: Vec<CertificateDer<'static>>,
        revocations: Vec<CertificateRevocationListDer<'static>>,
    ) -> Result<Self, IdentityError> {
        let leaf = chain
            .first()
            .ok_or_else(|| unreadable("certificate", "the file is empty"))?;
        let subject = Subject::of_certificate(leaf)?;
        check_validity(leaf, &subject.name)?;
        let provider = rustls::crypto::ring::default_provider();
        match CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider) {
            Ok(_) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                return Err(IdentityError::KeyMismatch(subject.name));
            }
            Err(error) => return Err(unreadable("private key", error)),
        }
        let identity = Self {
            subject,
            chain,
            key,
            roots,
            revocations,
        };
        super::tls::check_own(&identity)?;
        Ok(identity)
    }

    /// The identity of the node.
    pub fn id(&self) -> PeerId {
        self.subject.id
    }

    /// The holder of the node's certificate.
    pub const fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The last path segment of the SPIFFE URI.
    pub fn name(&self) -> &str {
        &self.subject.name
    }

    /// The terms of this node's certificate, its authorities and their lists: for each kind of
    /// document the one that ends next, or that ended last if all have ended.
    pub fn terms(&self) -> Vec<Term> {
        let now = ASN1Time::now().timestamp();
        terms(&self.chain, &self.roots, &self.revocations, now)
    }

    /// How many revocation lists this identity has.
    pub fn list_count(&self) -> usize {
        self.revocations.len()
    }

    /// How many of the revocation lists name an authority that has not signed them.
    pub fn forged_list_count(&self) -> usize {
        let is_forged = |list: &&CertificateRevocationListDer<'_>| is_forged(list, &self.roots);
        self.revocations.iter().filter(is_forged).count()
    }

    /// The issuers of the revocation lists, by the ids of the lists. Only lists count of the
    /// believed authorities, and of the authorities between them and this node.
    pub fn lists(&self) -> BTreeMap<ListId, ListIssuer> {
        let authorities = [&self.roots[..], self.chain.get(1..).unwrap_or_default()].concat();
        let known = self.revocations.iter().filter_map(|list| {
            let mut authorities = authorities.iter();
            let issuer = authorities.find(|one| is_of_any(list, std::slice::from_ref(one)))?;
            let (key, name) = authority_of(issuer)?;
            let root = self.roots.contains(issuer).then_some(key);
            Some((list_id(list)?, ListIssuer { name, root }))
        });
        known.collect()
    }

    /// The name of an authority that had a list before and has none now, although it may still be
    /// believed: the peers that the list revoked would be let in again.
    pub fn lost_list(&self, before: &BTreeMap<ListId, ListIssuer>) -> Option<String> {
        let now = self.lists();
        let roots: Vec<_> = self
            .roots
            .iter()
            .filter_map(|one| authority_of(one))
            .collect();
        let is_believed = |key: [u8; 32]| roots.iter().any(|(root, _)| *root == key);
        let mut lost = before
            .iter()
            .filter(|(id, issuer)| !now.contains_key(*id) && issuer.root.is_none_or(is_believed));
        lost.next().map(|(_, issuer)| issuer.name.clone())
    }

    /// How many of the revocation lists belong neither to an authority nor to an issuer between it
    /// and this node: such lists revoke nothing.
    pub fn stray_list_count(&self) -> usize {
        let is_stray = |list: &&CertificateRevocationListDer<'_>| {
            !is_of_any(list, &self.roots) && !is_of_any(list, &self.chain)
        };
        self.revocations.iter().filter(is_stray).count()
    }
}

fn unreadable(what: &'static str, reason: impl ToString) -> IdentityError {
    let reason = reason.to_string();
    IdentityError::Unreadable { what, reason }
}

fn certificates(
    what: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(what, error))?;
    match found.is_empty() {
        true => Err(unreadable(what, "the file holds no CERTIFICATE section")),
        false => Ok(found),
    }
}

/// How long an accepted chain is still valid, at most [`FAR`]: until its leaf or an intermediate
/// expires. Expired intermediates do not count, as the chain was accepted without them.
pub(super) fn valid_for(chain: &[CertificateDer<'_>]) -> Duration {
    let now = ASN1Time::now().timestamp();
    let mut ends = chain.iter().map(|certificate| end_of(certificate));
    let leaf = ends.next().flatten().unwrap_or(0);
    let others = ends.flatten().filter(|end| *end >= now);
    // The last second counts, as the verifier accepts it too.
    let left = others
        .fold(leaf, i64::min)
        .saturating_sub(now)
        .saturating_add(1);
    Duration::from_secs(u64::try_from(left).unwrap_or(0)).min(FAR)
}

/// The last second in which a certificate is valid.
fn end_of(certificate: &[u8]) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

fn check_validity(leaf: &[u8], name: &str) -> Result<(), IdentityError> {
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|_| SubjectError::Unreadable)?;
    let validity = certificate.validity();
    let (now, name) = (ASN1Time::now(), name.to_owned());
    if now < validity.not_before {
        let at = validity.not_before.to_string();
        return Err(IdentityError::NotYetValid { name, at });
    }
    if now > validity.not_after {
        let at = validity.not_after.to_string();
        return Err(IdentityError::Expired { name, at });
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};
    use rustls_pki_types::PrivatePkcs8KeyDer;

    use super::*;

    /// An identity that is its own authority.
    pub(crate) fn self_signed() -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        let uri = "spiffe://test/node/a".try_into().expect("ASCII");
        params.subject_alt_names.push(SanType::URI(uri));
        let paper = params.self_signed(&key).expect("signed");
        let root = paper.der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Identity::from_der(vec![root.clone()], key, vec![root], Vec::new()).expect("valid")
    }

    #[test]
    fn a_chain_holds_until_the_first_certificate_that_it_needs_expires() {
        let until = |seconds| {
            let mut params = CertificateParams::default();
            params.not_after = time::OffsetDateTime::now_utc() + time::Duration::seconds(seconds);
            let key = KeyPair::generate().expect("a key");
            params.self_signed(&key).expect("signed").der().clone()
        };
        let minutes = |chain: &[CertificateDer<'_>]| valid_for(chain).as_secs() / 60;
        assert_eq!(minutes(&[until(90), until(630)]), 1);
        assert_eq!(minutes(&[until(630), until(90)]), 1);
        assert_eq!(minutes(&[until(630), until(-90)]), 10);
        assert_eq!(minutes(&[until(-90), until(630)]), 0);
        assert_eq!(valid_for(&[]), Duration::ZERO);
    }

    #[test]
    fn only_a_spiffe_id_with_a_name_is_a_subject() {
        let subject = Subject::of_uri("spiffe://test/node/node-7").expect("valid");
        assert_eq!((&*subject.trust_domain, &*subject.name), ("test", "node-7"));
        assert_eq!(subject.form, "spiffe://test/node/");
        assert_eq!(subject.id, PeerId::of_uri("spiffe://test/node/node-7"));
        for uri in [
            "https://test/node",
            "spiffe://test",
            "spiffe:///node",
            "spiffe://test/node/",
            "spiffe://test/node/a\nb",
            "spiffe://test/node/a b",
            "spiffe://test/node/\u{1b}[2J",
            &format!("spiffe://test/{}", "n".repeat(129)),
        ] {
            let refused = Subject::of_uri(uri);
            assert!(matches!(refused, Err(SubjectError::NotSpiffe(_))), "{uri}");
        }
    }
}
