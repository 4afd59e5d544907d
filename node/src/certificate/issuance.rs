//! Certificates of nodes and of monitors, and the files in which they are handed out.
//!
//! ```text
//!   spiffe://DOMAIN/node/NAME      opens links, answers them, and serves metrics
//!   spiffe://DOMAIN/monitor/NAME   reads metrics; no node opens or takes a link with it
//! ```

use std::path::Path;

use rcgen::{
    CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, SignatureAlgorithm, SigningKey,
};
use serde::Serialize;

use super::{CertificateError, Validity, check_room, named, save};
use crate::settings::check_name;
use crate::spiffe::{monitor_form, node_uri};

/// The role of a certificate's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A member of the cluster.
    Node,
    /// A program that reads the metrics of nodes, such as Prometheus.
    Monitor,
}

impl Role {
    /// The roles of all holders of certificates.
    pub const ALL: [Self; 2] = [Self::Node, Self::Monitor];

    /// The role's name, which is also that of the files of its certificate and key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Monitor => "monitor",
        }
    }

    /// The URI in a certificate of this role.
    pub(super) fn uri(self, trust_domain: &str, name: &str) -> String {
        match self {
            Self::Node => node_uri(trust_domain, name),
            Self::Monitor => monitor_form(trust_domain) + name,
        }
    }

    /// The role and the name that a URI stands for.
    pub(super) fn of_uri(uri: &str) -> Option<(Self, &str)> {
        let (domain, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        let (_, name) = path.split_once('/')?;
        let is_it = |role: &Self| role.uri(domain, name) == uri;
        let role = Self::ALL.into_iter().find(is_it)?;
        check_name(name).ok().map(|()| (role, name))
    }

    /// The algorithm of the role's keys. Monitors use ECDSA, since OpenSSL, and so curl, cannot
    /// read the files of Ed25519 keys that are made here: these hold the public half, too (RFC
    /// 5958).
    fn algorithm(self) -> &'static SignatureAlgorithm {
        match self {
            Self::Node => &PKCS_ED25519,
            Self::Monitor => &PKCS_ECDSA_P256_SHA256,
        }
    }

    /// The permitted uses of the key. A monitor only acts as a client.
    fn usages(self) -> Vec<ExtendedKeyUsagePurpose> {
        match self {
            Self::Node => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            Self::Monitor => vec![ExtendedKeyUsagePurpose::ClientAuth],
        }
    }
}

/// A certificate, its key, and the authority by which its owner verifies others.
pub struct Issued {
    /// The certificate.
    pub certificate_pem: String,
    /// The certificate's private key.
    pub key_pem: String,
    /// The authority's certificate.
    pub authority_pem: String,
}

impl Issued {
    /// Check that a certificate of this role can be saved to `dir` without `force`: none of its
    /// files exists there.
    pub fn check_room(dir: &Path, role: Role) -> Result<(), CertificateError> {
        let [certificate, key] = files(role);
        check_room(dir, [&*key, &*certificate, "ca.pem"])
    }

    /// Write `node.pem`, `node.key` and `ca.pem` to `dir`.
    pub fn save(&self, dir: &Path, force: bool) -> Result<(), CertificateError> {
        self.save_as(Role::Node, dir, force)
    }

    /// As [`Issued::save`], with files that are named by the role.
    pub fn save_as(&self, role: Role, dir: &Path, force: bool) -> Result<(), CertificateError> {
        let [certificate, key] = files(role);
        // The certificate is written last: if another file fails, no certificate is handed out.
        let files: [(&str, &str); 3] = [
            ("ca.pem", &self.authority_pem),
            (&key, &self.key_pem),
            (&certificate, &self.certificate_pem),
        ];
        save(dir, &files, force)
    }
}

/// The names of the files of a certificate and its key.
fn files(role: Role) -> [String; 2] {
    [".pem", ".key"].map(|end| role.name().to_owned() + end)
}

/// The name for which scrapers verify the certificate of any node, whatever its address: most
/// scrapers verify a host's name, and addresses change.
const SERVER_NAME: &str = "binomesh";

/// An authority that can sign certificates.
pub(super) struct Certifier<'a, S> {
    pub(super) issuer: &'a Issuer<'a, S>,
    pub(super) trust_domain: &'a str,
    /// The authority's own certificate.
    pub(super) certificate_pem: &'a str,
}

/// Make a new key for this role and name, and its certificate.
pub(super) fn leaf<S: SigningKey>(
    authority: &Certifier<'_, S>,
    role: Role,
    name: &str,
    validity: Validity,
) -> Result<Issued, CertificateError> {
    check_name(name)?;
    if validity.until <= validity.from {
        return Err(CertificateError::Validity(validity.from, validity.until));
    }
    let mut params = CertificateParams::default();
    validity.set(&mut params)?;
    params.distinguished_name = named(name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = role.usages();
    let uri = role.uri(authority.trust_domain, name);
    params.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
    if role == Role::Node {
        let server_name = SanType::DnsName(SERVER_NAME.try_into()?);
        params.subject_alt_names.push(server_name);
    }
    let key = KeyPair::generate_for(role.algorithm())?;
    let certificate = params.signed_by(&key, authority.issuer)?;
    Ok(Issued {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
        authority_pem: authority.certificate_pem.to_owned(),
    })
}
