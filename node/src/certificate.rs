//! The cluster's own certificate authority: Ed25519 keys (for monitors ECDSA), explicit validity,
//! and certificates that each name exactly one node or monitor by its SPIFFE URI.
//!
//! ```text
//!   ca.pem, ca.key (stays with the operator) ──issues──▶ node.pem, node.key, ca.pem
//! ```

mod issuance;
mod job;
mod ledger;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ED25519, RevokedCertParams,
    SanType, SerialNumber,
};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use issuance::{Certifier, leaf};
pub use issuance::{Issued, Role};
pub use job::{JobAuthority, JobSecret, SecretError};
pub use ledger::{Entry, Ledger};

use crate::settings::InvalidName;
use crate::state::{check_replaceable, private_dir, replace, wall_clock_ms, wall_clock_seconds};

/// How far a host's clock, in seconds, may lag while the host still accepts a fresh certificate.
const SKEW_SECONDS: i64 = 300;
const DAY_SECONDS: i64 = 86_400;

/// The validity of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second of the validity.
    pub from: i64,
    /// The last second of the validity.
    pub until: i64,
}

impl Validity {
    /// From now, less a margin for clocks that lag, for `days` days.
    pub fn days(days: u32) -> Self {
        let now = wall_clock_seconds();
        Self {
            from: now - SKEW_SECONDS,
            until: now + i64::from(days) * DAY_SECONDS,
        }
    }

    fn set(self, params: &mut CertificateParams) -> Result<(), CertificateError> {
        (params.not_before, params.not_after) = self.dates()?;
        Ok(())
    }

    fn dates(self) -> Result<(OffsetDateTime, OffsetDateTime), CertificateError> {
        let date = |seconds| {
            OffsetDateTime::from_unix_timestamp(seconds)
                .map_err(|_| CertificateError::Validity(self.from, self.until))
        };
        Ok((date(self.from)?, date(self.until)?))
    }
}

/// Why a certificate, an authority or a revocation list was not made, or not read. Existing files
/// are unchanged, unless the disk failed while several were replaced.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file of that name exists already.
    #[error("{} exists already; choose another folder or pass --force to replace it", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {source}; check the path and its permissions", path = .path.display())]
    File {
        /// What the operation was, in words.
        doing: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The authority's files are not those of an authority.
    #[error("{path}: {problem}; make an authority with `binomesh ca init`", path = .path.display())]
    NotAnAuthority {
        /// The path of the file.
        path: PathBuf,
        /// The problem with the file.
        problem: String,
    },
    /// The name is not valid in a certificate.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The text is not a valid trust domain.
    #[error(
        "{0:?} is no trust domain; expected 1 to 200 lower-case letters, digits, `-`, `_` and `.`"
    )]
    TrustDomain(String),
    /// The validity is empty or beyond the calendar.
    #[error(
        "a certificate cannot be valid from {0} to {1} (seconds since 1970); give --valid-days fewer or more days"
    )]
    Validity(i64, i64),
    /// The authority expires before the certificate would begin, or at most five minutes after.
    #[error("the authority has expired; make a new one with `binomesh ca init`")]
    AuthorityExpired,
    /// A text that was to be recorded, listed or revoked is no certificate of a node or a monitor.
    #[error("cannot read the certificate: {0}")]
    Unreadable(String),
    /// The authority has issued no certificate of that name.
    #[error("this authority has issued no certificate of the {role} {name:?}; `binomesh ca list` names all certificates that it has issued", role = .0.name(), name = .1)]
    NeverIssued(Role, String),
    /// The certificate, the authority or the revocation list could not be made.
    #[error("cannot make the certificate: {0}")]
    Signing(#[from] rcgen::Error),
}

/// The authority of a cluster.
pub struct Authority {
    certificate_pem: String,
    trust_domain: String,
    until: i64,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Make a new authority for `trust_domain`.
    pub fn generate(trust_domain: &str, validity: Validity) -> Result<Self, CertificateError> {
        let plain =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
        if !(1..=200).contains(&trust_domain.len()) || !trust_domain.bytes().all(plain) {
            let found = trust_domain.chars().take(64).collect();
            return Err(CertificateError::TrustDomain(found));
        }
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let params = authority_params(trust_domain, validity, key.public_key_raw())?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            trust_domain: trust_domain.to_owned(),
            until: validity.until,
            issuer: Issuer::new(params, key),
        })
    }

    /// Read the authority in `dir`.
    pub fn load(dir: &Path) -> Result<Self, CertificateError> {
        let (certificate_path, key_path) = (dir.join("ca.pem"), dir.join("ca.key"));
        let certificate_pem = read(&certificate_path)?;
        let wrong = |path: &Path, problem: String| CertificateError::NotAnAuthority {
            path: path.to_owned(),
            problem,
        };
        let key = KeyPair::from_pem(&read(&key_path)?)
            .map_err(|error| wrong(&key_path, error.to_string()))?;
        let bad = |problem: String| wrong(&certificate_path, problem);
        let pem = x509_parser::pem::parse_x509_pem(certificate_pem.as_bytes())
            .map_err(|error| bad(error.to_string()))?;
        let (_, parsed) =
            X509Certificate::from_der(&pem.1.contents).map_err(|error| bad(error.to_string()))?;
        let trust_domain = trust_domain_of(&parsed).ok_or_else(|| {
            bad("the file is no CA certificate with exactly one name \
                                spiffe://DOMAIN"
                .to_owned())
        })?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(wrong(
                &key_path,
                "the key does not belong to ca.pem".to_owned(),
            ));
        }
        let until = parsed.validity().not_after.timestamp();
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key)?;
        Ok(Self {
            certificate_pem,
            trust_domain,
            until,
            issuer,
        })
    }

    /// Write `ca.pem` and `ca.key` to `dir`.
    pub fn save(&self, dir: &Path, force: bool) -> Result<(), CertificateError> {
        let key = self.issuer.key().serialize_pem();
        save(
            dir,
            &[("ca.key", &key), ("ca.pem", &self.certificate_pem)],
            force,
        )
    }

    /// The trust domain of all its nodes.
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// The authority's certificate.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The time from now, less a margin for clocks that lag, until the authority expires.
    pub fn rest(&self) -> Validity {
        Validity {
            until: self.until,
            ..Validity::days(0)
        }
    }

    /// Certify a node. The certificate ends no later than the authority's own.
    pub fn issue(&self, name: &str, validity: Validity) -> Result<Issued, CertificateError> {
        self.issue_to(Role::Node, name, validity)
    }

    /// Certify a node or a monitor. The certificate ends no later than the authority's own.
    pub fn issue_to(
        &self,
        role: Role,
        name: &str,
        validity: Validity,
    ) -> Result<Issued, CertificateError> {
        let until = validity.until.min(self.until);
        if until < validity.until && until <= validity.from + SKEW_SECONDS {
            return Err(CertificateError::AuthorityExpired);
        }
        let from = validity.from;
        let validity = Validity { from, until };
        let authority = Certifier {
            issuer: &self.issuer,
            trust_domain: &self.trust_domain,
            certificate_pem: &self.certificate_pem,
        };
        leaf(&authority, role, name, validity)
    }
}

/// The parameters of the certificate of an authority with this public key. The authority's name
/// contains a part of the key's hash, so that two authorities of one cluster have two names:
/// revocation lists are looked up by name.
fn authority_params(
    trust_domain: &str,
    validity: Validity,
    key: &[u8],
) -> Result<CertificateParams, CertificateError> {
    let hash = blake3::hash(key).to_hex();
    let short: String = hash.chars().take(8).collect();
    let mut params = CertificateParams::default();
    validity.set(&mut params)?;
    params.distinguished_name = named(&format!("Binomesh CA {short} of {trust_domain}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let uri = format!("spiffe://{trust_domain}");
    params.subject_alt_names = vec![SanType::URI(uri.try_into()?)];
    Ok(params)
}

impl Authority {
    /// Make a revocation list (PEM) of these certificates (PEM). It replaces former lists, so it
    /// must name all revoked certificates. Its next update is due when `validity` ends.
    pub fn revoke(
        &self,
        certificates_pem: &[&str],
        validity: Validity,
    ) -> Result<String, CertificateError> {
        let (this_update, next_update) = validity.dates()?;
        let revoked = |text: &&str| {
            Ok(RevokedCertParams {
                serial_number: serial_of(text)?,
                revocation_time: this_update,
                reason_code: None,
                invalidity_date: None,
            })
        };
        let revoked_certs = certificates_pem.iter().map(revoked);
        let params = CertificateRevocationListParams {
            this_update,
            next_update,
            // The number must grow from list to list.
            crl_number: SerialNumber::from(wall_clock_ms()),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect::<Result<_, CertificateError>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn serial_of(certificate_pem: &str) -> Result<SerialNumber, CertificateError> {
    let unreadable = |error: String| CertificateError::Unreadable(error);
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate_pem.as_bytes())
        .map_err(|error| unreadable(error.to_string()))?;
    let certificate = pem.parse_x509().map_err(|e| unreadable(e.to_string()))?;
    Ok(SerialNumber::from_slice(certificate.raw_serial()))
}

fn trust_domain_of(authority: &X509Certificate<'_>) -> Option<String> {
    if !authority.is_ca() {
        return None;
    }
    let names = authority.subject_alternative_name().ok()??;
    let [GeneralName::URI(uri)] = names.value.general_names.as_slice() else {
        return None;
    };
    uri.strip_prefix("spiffe://").map(str::to_owned)
}

fn read(path: &Path) -> Result<String, CertificateError> {
    fs::read_to_string(path).map_err(|source| CertificateError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    })
}

fn check_room<'a>(
    dir: &Path,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), CertificateError> {
    let mut paths = names.into_iter().map(|name| dir.join(name));
    let existing = paths.find(|path| fs::symlink_metadata(path).is_ok());
    existing.map_or(Ok(()), |path| Err(CertificateError::Exists(path)))
}

fn save(dir: &Path, files: &[(&str, &str)], force: bool) -> Result<(), CertificateError> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::File {
            doing,
            path,
            source,
        }
    };
    if !force {
        check_room(dir, files.iter().map(|(name, _)| *name))?;
    }
    private_dir(dir).map_err(failed("create", dir))?;
    // Check all files before the first is written, since they belong together.
    for (name, _) in files {
        let path = dir.join(name);
        check_replaceable(&path).map_err(failed("write", &path))?;
    }
    for (name, text) in files {
        let path = dir.join(name);
        replace(&path, text.as_bytes()).map_err(failed("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
