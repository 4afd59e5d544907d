//! The certificate, key and authorities of a node, read from files and checked
//! before anything is dialled.

use std::path::{Path, PathBuf};

use binomesh_overlay::PeerId;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::settings::{NodeConfig, check_name};
use crate::state::wall_clock_ms;

/// What a node proves itself with, and what it believes others by.
pub struct Credentials {
    /// The node's certificate and its chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of that certificate.
    pub key: PrivateKeyDer<'static>,
    /// The certificates of the cluster's authorities.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Lists of revoked certificates.
    pub revocations: Vec<CertificateRevocationListDer<'static>>,
    /// The trust domain of the node's SPIFFE URI.
    pub trust_domain: String,
    /// The name in the node's SPIFFE URI.
    pub name: String,
}

impl Credentials {
    /// Read and check the files that `config` names.
    pub fn load(config: &NodeConfig) -> Result<Self, CredentialsError> {
        let chain = certificates("certificate", &config.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&config.key)
            .map_err(|error| unreadable("key", &config.key, &error))?;
        let authorities = certificates("ca", &config.ca)?;
        let revocations = match &config.crl {
            Some(path) => revocations(path)?,
            None => Vec::new(),
        };
        let at = |problem| CredentialsError::new("certificate", &config.certificate, problem);
        let leaf = chain.first().ok_or_else(|| at(Problem::Empty))?;
        let about = LeafAbout::read(leaf).map_err(at)?;
        about.check_time(wall_clock_ms() / 1000).map_err(at)?;
        if about.name != config.name {
            let (found, wanted) = (about.name, config.name.clone());
            return Err(at(Problem::OtherName { found, wanted }));
        }
        check_key(&chain, &key)
            .map_err(|problem| CredentialsError::new("key", &config.key, problem))?;
        Ok(Self {
            chain,
            key,
            authorities,
            revocations,
            trust_domain: about.trust_domain,
            name: about.name,
        })
    }

    /// The identity of the node called `name` in this trust domain.
    pub fn id_of(&self, name: &str) -> PeerId {
        PeerId::of_uri(&node_uri(&self.trust_domain, name))
    }

    /// The node's own identity.
    pub fn id(&self) -> PeerId {
        self.id_of(&self.name)
    }
}

/// The SPIFFE URI of a node.
pub fn node_uri(trust_domain: &str, name: &str) -> String {
    format!("spiffe://{trust_domain}/node/{name}")
}

/// Credentials that cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` ({file}): {problem}; {remedy}", file = .file.display(), remedy = .problem.remedy())]
pub struct CredentialsError {
    /// The setting that names the file.
    pub key: &'static str,
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

impl CredentialsError {
    fn new(key: &'static str, file: &Path, problem: Problem) -> Self {
        let file = file.to_owned();
        Self { key, file, problem }
    }
}

/// What is wrong with a file of credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It cannot be read or is not PEM.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// There is nothing of the expected kind in it.
    #[error("holds no PEM section of the expected kind")]
    Empty,
    /// A section is not what it says.
    #[error("is malformed: {0}")]
    Malformed(String),
    /// The certificate does not name exactly one node.
    #[error("names {0} SPIFFE nodes, expected exactly one `spiffe://DOMAIN/node/NAME`")]
    NoSingleNode(usize),
    /// The certificate names another node.
    #[error("is of `{found}`, the configured name is `{wanted}`")]
    OtherName {
        /// Who it is of.
        found: String,
        /// The configured name.
        wanted: String,
    },
    /// Its time is over.
    #[error("has expired {0} s ago")]
    Expired(u64),
    /// Its time has not come.
    #[error("is not valid for another {0} s")]
    NotYet(u64),
    /// Key and certificate do not belong together.
    #[error("does not belong to the certificate")]
    OtherKey,
    /// The key is of a kind that the crypto provider does not know.
    #[error("is of no supported kind: {0}")]
    UnknownKey(String),
}

impl Problem {
    const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check the path and its permissions",
            Self::Empty | Self::Malformed(_) | Self::NoSingleNode(_) | Self::UnknownKey(_) => {
                "issue it again with `binomesh ca issue`"
            }
            Self::OtherName { .. } => "correct `name`, or issue a certificate of that name",
            Self::Expired(_) => "issue a new one with `binomesh ca issue`",
            Self::NotYet(_) => "check this host's clock",
            Self::OtherKey => "use the key that was issued with the certificate",
        }
    }
}

fn unreadable(
    key: &'static str,
    file: &Path,
    error: &rustls_pki_types::pem::Error,
) -> CredentialsError {
    use rustls_pki_types::pem::Error;
    let problem = match error {
        Error::Io(error) => Problem::Unreadable(error.to_string()),
        Error::NoItemsFound => Problem::Empty,
        other => Problem::Malformed(other.to_string()),
    };
    CredentialsError::new(key, file, problem)
}

fn certificates(
    key: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(key, file, &error))?;
    if found.is_empty() {
        return Err(CredentialsError::new(key, file, Problem::Empty));
    }
    Ok(found)
}

fn revocations(
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CredentialsError> {
    let read = CertificateRevocationListDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| unreadable("crl", file, &error))
}

fn check_key(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), Problem> {
    let provider = rustls::crypto::ring::default_provider();
    let (chain, key) = (chain.to_vec(), key.clone_key());
    match rustls::sign::CertifiedKey::from_der(chain, key, &provider) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(Problem::OtherKey),
        Err(error) => Err(Problem::UnknownKey(error.to_string())),
    }
}

/// What a leaf certificate says of its node.
#[derive(Debug, PartialEq, Eq)]
struct LeafAbout {
    trust_domain: String,
    name: String,
    not_before: i64,
    not_after: i64,
}

impl LeafAbout {
    fn read(leaf: &CertificateDer<'_>) -> Result<Self, Problem> {
        let malformed = |error: String| Problem::Malformed(error);
        let (_, parsed) =
            X509Certificate::from_der(leaf).map_err(|error| malformed(error.to_string()))?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|error| malformed(error.to_string()))?;
        let uris: Vec<&str> = names
            .iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) => Some(*uri),
                _ => None,
            })
            .collect();
        let &[uri] = uris.as_slice() else {
            return Err(Problem::NoSingleNode(uris.len()));
        };
        let path = uri.strip_prefix("spiffe://");
        let parts = path.and_then(|path| path.split_once("/node/"));
        let (trust_domain, name) = parts.ok_or(Problem::NoSingleNode(0))?;
        if trust_domain.is_empty() || trust_domain.contains('/') || check_name(name).is_err() {
            return Err(Problem::NoSingleNode(0));
        }
        Ok(Self {
            trust_domain: trust_domain.to_owned(),
            name: name.to_owned(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
        })
    }

    fn check_time(&self, now: u64) -> Result<(), Problem> {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        if now > self.not_after {
            return Err(Problem::Expired(now.abs_diff(self.not_after)));
        }
        if now < self.not_before {
            return Err(Problem::NotYet(now.abs_diff(self.not_before)));
        }
        Ok(())
    }
}
