//! The authority of a short-lived job, which all of its processes derive from one secret.
//!
//! ```text
//!   secret, job id ──HKDF-SHA256──▶ key of the authority ──▶ the same ca.pem in all processes
//!                                           │
//!        random key of this process ────────┴──▶ certificate of this process, in memory
//! ```
//!
//! A process with the secret can be any node of the job, and nothing revokes it. Each job id has an
//! authority of its own, so a job with the same secret and another id is a stranger.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rcgen::{Issuer, PKCS_ED25519, PublicKeyData, SignatureAlgorithm, SigningKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use zeroize::Zeroizing;

use super::{CertificateError, Certifier, Issued, Role, Validity, authority_params, leaf};
use crate::files;
use crate::settings::SecretSource;

/// The bytes of a new secret.
const NEW_BYTES: usize = 32;
/// The fewest bytes of a secret: 128 bits.
const LEAST_BYTES: usize = 16;
/// The most digits of a secret. A guess: more than any secret has.
const TEXT_BYTES_MAX: usize = 4096;
/// The most bytes that are read of a file: twice the most digits, so there is room for the end of a
/// line, and too long a secret shows.
const FILE_BYTES_MAX: u64 = 2 * TEXT_BYTES_MAX as u64;
/// The fewest different bytes of a secret. Of 16 random bytes hardly ever fewer than 8 differ;
/// words, patterns and rows of zeros have fewer.
const LEAST_DIFFERENT: usize = 8;
/// How long the certificate of a process is valid, in days.
const VALID_DAYS: u32 = 30;
/// From 1970 until 9999, which stands for "without an end" (RFC 5280, 4.1.2.5). It is the same in
/// all processes, independent of their clocks.
const ENDLESS: Validity = Validity {
    from: 0,
    until: 253_402_300_799,
};

/// Why the secret of a job cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The variable is not set, or is no text.
    #[error("is not set")]
    Unset,
    /// The path leads to a folder, not to a file.
    #[error("is a folder, not a file")]
    Folder,
    /// The mode of the file gives other users some access.
    #[error("has mode {0:04o}, so other users may read the secret")]
    Shared(u32),
    /// The text is not in the form of a secret, or is too weak for one.
    #[error("holds {0}")]
    Weak(&'static str),
    /// The secret was given where the name of its file belongs.
    #[error("is the secret itself, which other users can see there")]
    Itself,
    /// No certificate can be made from the secret.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The secret of a job. It is wiped from memory when it is dropped.
pub struct JobSecret(Zeroizing<Vec<u8>>);

impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret")
    }
}

impl JobSecret {
    /// A new secret, as its file holds it: 64 hexadecimal digits and the end of a line.
    pub fn generate() -> Result<Zeroizing<String>, SecretError> {
        let mut bytes = Zeroizing::new([0; NEW_BYTES]);
        let filled = SystemRandom::new().fill(bytes.as_mut_slice());
        filled.map_err(|_| io::Error::other("the system gave no random bytes"))?;
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        Ok(Zeroizing::new(digits.collect::<String>() + "\n"))
    }

    /// Read the secret from its source.
    pub fn read(source: &SecretSource) -> Result<Self, SecretError> {
        match source {
            SecretSource::File(path) => Self::parse(&private_text(path)?),
            SecretSource::Itself => Err(SecretError::Itself),
            SecretSource::Variable(name) => match std::env::var(name) {
                Ok(text) => Self::parse(&Zeroizing::new(text)),
                Err(_) => Err(SecretError::Unset),
            },
        }
    }

    /// Parse a secret of hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let digits = text.trim();
        let weak = |why| Err(SecretError::Weak(why));
        if digits.is_empty() {
            return weak("nothing");
        }
        // A longer text is refused, not cut: a part of it would be another secret.
        if digits.len() > TEXT_BYTES_MAX {
            return weak("more than 4,096 digits");
        }
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) || !digits.len().is_multiple_of(2)
        {
            return weak("a text that is not an even number of hexadecimal digits");
        }
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.filter_map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        let bytes = Zeroizing::new(bytes.collect::<Vec<u8>>());
        let different: std::collections::BTreeSet<&u8> = bytes.iter().collect();
        if bytes.len() < LEAST_BYTES {
            return weak("less than 128 bits");
        }
        if different.len() < LEAST_DIFFERENT {
            return weak("a pattern of few different bytes, which is not random");
        }
        Ok(Self(bytes))
    }

    /// The authority of the job with this id, the same in each process.
    pub fn authority(&self, job_id: &str) -> Result<JobAuthority, CertificateError> {
        let trust_domain = trust_domain(job_id);
        let key = Derived(self.key(job_id)?);
        let params = authority_params(&trust_domain, ENDLESS, key.0.public_key().as_ref())?;
        let certificate_pem = params.self_signed(&key)?.pem();
        Ok(JobAuthority {
            certificate_pem,
            trust_domain,
            issuer: Issuer::new(params, key),
        })
    }

    fn key(&self, job_id: &str) -> Result<Ed25519KeyPair, rcgen::Error> {
        let failed = || rcgen::Error::RingUnspecified;
        let mut seed = Zeroizing::new([0; 32]);
        let extracted = Salt::new(HKDF_SHA256, b"binomesh job secret, version 1");
        extracted
            .extract(&self.0)
            .expand(
                &[b"key of the authority of job ", job_id.as_bytes()],
                HKDF_SHA256,
            )
            .and_then(|derived| derived.fill(seed.as_mut_slice()))
            .map_err(|_| failed())?;
        Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map_err(|_| failed())
    }
}

/// The authority of a job.
pub struct JobAuthority {
    certificate_pem: String,
    trust_domain: String,
    issuer: Issuer<'static, Derived>,
}

impl JobAuthority {
    /// Certify this process.
    pub fn issue(&self, name: &str) -> Result<Issued, CertificateError> {
        let validity = Validity::days(VALID_DAYS);
        let authority = Certifier {
            issuer: &self.issuer,
            trust_domain: &self.trust_domain,
            certificate_pem: &self.certificate_pem,
        };
        leaf(&authority, Role::Node, name, validity)
    }
}

/// A signing key that is derived from the secret, rather than read from a file.
struct Derived(Ed25519KeyPair);

impl PublicKeyData for Derived {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for Derived {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(message).as_ref().to_vec())
    }
}

/// The text of a file that no other user may read.
fn private_text(path: &Path) -> Result<Zeroizing<String>, SecretError> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(SecretError::Folder);
    }
    let file = files::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(SecretError::Shared(mode));
    }
    let mut text = Zeroizing::new(String::new());
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The trust domain of a job id, in small letters. A dash replaces each character that a domain
/// cannot have, so two ids may have one domain; their authorities differ all the same.
fn trust_domain(job_id: &str) -> String {
    let plain = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '.' | '_') => letter,
        _ => '-',
    };
    format!("job-{}", job_id.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests;
