//! The certificate, key, authorities and revocation lists of a node, read from files or made from
//! the secret of a job, and checked before they are used.

use std::io;
use std::path::{Path, PathBuf};

use binomesh_overlay::PeerId;
use binomesh_overlay::quic::{Identity, IdentityError};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

#[cfg(feature = "ca")]
use crate::certificate::{JobSecret, SecretError};
use crate::files;
use crate::settings::NodeConfig;
#[cfg(feature = "ca")]
use crate::settings::SecretSource;
use crate::spiffe::node_uri;

/// The file name of a revocation list beside `ca`.
const LIST_NAME: &str = "crl.pem";

/// The certificate and key by which a node proves its identity, and the authorities and revocation
/// lists by which it verifies others.
#[derive(Debug)]
pub struct Credentials {
    /// The checked certificate, key, authorities and revocation lists.
    pub identity: Identity,
}

impl Credentials {
    /// Read and check the files that `config` names; with `job_secret`, make the credentials from
    /// that secret.
    pub fn load(config: &NodeConfig) -> Result<Self, CredentialsError> {
        #[cfg(feature = "ca")]
        if let Some(source) = &config.job_secret {
            return Self::of_job(config, source);
        }
        let chain = certificates("certificate", &config.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read("key", &config.key)?)
            .map_err(|error| unreadable("key", &config.key, &error))?;
        let authorities = certificates("ca", &config.ca)?;
        let list = list_of(config);
        let revocations = match &list {
            Some(path) => revocations(path)?,
            None => Vec::new(),
        };
        let identity = Identity::from_der(chain, key, authorities, revocations);
        let identity = identity.map_err(|error| unusable(config, error))?;
        let at = |problem| CredentialsError::new("certificate", &config.certificate, problem);
        let subject = identity.subject();
        if subject.name != config.name {
            let (found, wanted) = (subject.name.clone(), config.name.clone());
            return Err(at(Problem::OtherName { found, wanted }));
        }
        // Peers are found by names alone, so every URI must have the form of `node_uri`.
        let uri = node_uri(&subject.trust_domain, &subject.name);
        if subject.id != PeerId::of_uri(&uri) {
            return Err(at(Problem::OtherUri(uri)));
        }
        check_lists(&identity, list.as_deref())?;
        Ok(Self { identity })
    }

    /// The credentials that follow from the secret of a job.
    #[cfg(feature = "ca")]
    fn of_job(config: &NodeConfig, source: &SecretSource) -> Result<Self, CredentialsError> {
        let shown = PathBuf::from(source.to_string());
        let failed = |problem: Problem| CredentialsError::new("job_secret", &shown, problem);
        let secret = JobSecret::read(source).map_err(|error| failed(error.into()))?;
        let job_id = config.job_id.as_deref().unwrap_or_default();
        let issued = secret
            .authority(job_id)
            .and_then(|job| job.issue(&config.name));
        let issued = issued.map_err(|error| failed(SecretError::from(error).into()))?;
        let identity = Identity::from_pem(
            issued.certificate_pem.as_bytes(),
            issued.key_pem.as_bytes(),
            issued.authority_pem.as_bytes(),
            b"",
        );
        let identity = identity.map_err(|error| failed(error.into()))?;
        Ok(Self { identity })
    }
}

/// The file of the revocation lists: `crl`, or `crl.pem` beside `ca` if it exists. So a first list
/// needs no change of settings.
fn list_of(config: &NodeConfig) -> Option<PathBuf> {
    let beside = config.ca.with_file_name(LIST_NAME);
    // A dangling link counts as present: reading it then tells why it cannot be used.
    let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    let found = || {
        let seen = std::fs::symlink_metadata(&beside);
        (!seen.is_err_and(is_missing)).then_some(beside)
    };
    config.crl.clone().or_else(found)
}

/// Check the lists. A list of another authority revokes nothing. Some such lists may be left over
/// from a former authority, but it is a mistake if there are no others.
fn check_lists(identity: &Identity, file: Option<&Path>) -> Result<(), CredentialsError> {
    let (stray, count) = (identity.stray_list_count(), identity.list_count());
    let Some(file) = file else {
        return Ok(());
    };
    if identity.forged_list_count() > 0 {
        return Err(CredentialsError::new("crl", file, Problem::ForgedList));
    }
    if stray == 0 {
        return Ok(());
    }
    if stray == count {
        return Err(CredentialsError::new("crl", file, Problem::StrayLists));
    }
    let file = file.display();
    tracing::warn!(%file, stray, count, "some revocation lists belong to no authority in `ca` and \
                                         have no effect");
    Ok(())
}

/// Why credentials cannot be used. No node was started with them, and a running node keeps its
/// former ones.
#[derive(Debug, thiserror::Error)]
#[error("`{key}` ({file}): {problem}; {remedy}", file = .file.display(), remedy = .problem.remedy())]
pub struct CredentialsError {
    /// The setting that names the file.
    pub key: &'static str,
    /// The path of the file.
    pub file: PathBuf,
    /// The problem with the file.
    pub problem: Problem,
}

impl CredentialsError {
    fn new(key: &'static str, file: &Path, problem: Problem) -> Self {
        let file = file.to_owned();
        Self { key, file, problem }
    }
}

/// A problem with a file of credentials.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file has no entry of the expected kind.
    #[error("holds no PEM section of the expected kind")]
    Empty,
    /// The file is not PEM.
    #[error("is malformed: {0}")]
    Malformed(String),
    /// The file has no revocation list, or one that is malformed.
    #[error("holds no revocation list, or a malformed one, in PEM or DER")]
    NoList,
    /// The file has binary data beside PEM.
    #[error("holds binary data beside its PEM sections")]
    Mixed,
    /// All lists belong to other authorities.
    #[error("holds no revocation list of an authority in `ca`")]
    StrayLists,
    /// An authority has not signed the list that names it.
    #[error(
        "holds a revocation list that names an authority in `ca`, but this authority has not signed the list"
    )]
    ForgedList,
    /// The certificate names another node.
    #[error("is the certificate of `{found}`, but the configured name is `{wanted}`")]
    OtherName {
        /// The name in the certificate.
        found: String,
        /// The configured name.
        wanted: String,
    },
    /// The certificate's SPIFFE URI has not the form by which peers find names.
    #[error("does not name the node by the URI `{0}`")]
    OtherUri(String),
    /// The secret of the job cannot be used.
    #[cfg(feature = "ca")]
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The certificate, key, authorities and lists are malformed, do not fit together, or are not
    /// valid now.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Problem {
    const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "check the path and its permissions",
            #[cfg(feature = "ca")]
            Self::Secret(SecretError::Shared(_)) => {
                "chmod 600 the file, and make a new secret if another user may have read this one"
            }
            #[cfg(feature = "ca")]
            Self::Secret(SecretError::Itself) => {
                "make a new secret, write it to a file of mode 0600 or to an environment \
                 variable, and give the path of the file or env:VARIABLE"
            }
            #[cfg(feature = "ca")]
            Self::Secret(SecretError::Unset) => {
                "export the variable at all hosts, and give env:VARIABLE"
            }
            #[cfg(feature = "ca")]
            Self::Secret(SecretError::Folder) => "give the path of a file in this folder",
            #[cfg(feature = "ca")]
            Self::Secret(_) => "make a secret with `binomesh ca job-secret --out FILE`",
            Self::OtherName { .. } => {
                "correct `name`, or issue a certificate for the configured \
                                       name"
            }
            Self::Identity(IdentityError::NotYetValid { .. }) => "correct the clock of this host",
            Self::Identity(IdentityError::KeyMismatch(_)) => {
                "use the key that was issued with the certificate"
            }
            Self::Identity(IdentityError::NotAccepted { .. }) => {
                "name in `ca` the authority that issued the certificate, and in `crl` a current \
                 revocation list"
            }
            Self::NoList | Self::ForgedList => {
                "write the list again with `binomesh ca revoke --dir CA --name NAME --out FILE`"
            }
            Self::Mixed => "convert a binary (DER) list with `openssl crl -inform DER`",
            Self::StrayLists => {
                "add the authority that signed the list to `ca`, or use the list of an authority \
                 in `ca`"
            }
            Self::Empty | Self::Malformed(_) | Self::OtherUri(_) | Self::Identity(_) => {
                "issue the certificate again with `binomesh ca issue`"
            }
        }
    }
}

/// The error for an unusable identity, about the file that most probably causes it.
fn unusable(config: &NodeConfig, error: IdentityError) -> CredentialsError {
    let (key, file) = match &error {
        IdentityError::KeyMismatch(_)
        | IdentityError::Unreadable {
            what: "private key",
            ..
        } => ("key", &config.key),
        IdentityError::NotAccepted { .. } => ("ca", &config.ca),
        _ => ("certificate", &config.certificate),
    };
    CredentialsError::new(key, file, error.into())
}

fn unreadable(key: &'static str, file: &Path, error: &pem::Error) -> CredentialsError {
    use pem::Error;
    let problem = match error {
        Error::Io(error) => Problem::Unreadable(error.to_string()),
        Error::NoItemsFound => Problem::Empty,
        other => Problem::Malformed(other.to_string()),
    };
    CredentialsError::new(key, file, problem)
}

fn read(key: &'static str, file: &Path) -> Result<Vec<u8>, CredentialsError> {
    files::read(file).map_err(|error| unreadable(key, file, &pem::Error::Io(error)))
}

fn certificates(
    key: &'static str,
    file: &Path,
) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let bytes = read(key, file)?;
    let found = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unreadable(key, file, &error))?;
    if found.is_empty() {
        return Err(CredentialsError::new(key, file, Problem::Empty));
    }
    Ok(found)
}

/// The lists of a file: one or more as PEM, or one as DER. A file without a list is an error:
/// without any list, revoked members would be let in again.
fn revocations(
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, CredentialsError> {
    let bytes = read("crl", file)?;
    let sections = CertificateRevocationListDer::pem_slice_iter(&bytes);
    let mut lists: Vec<_> = sections
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable("crl", file, &error))?;
    if lists.is_empty() {
        lists.push(CertificateRevocationListDer::from(bytes));
    } else if std::str::from_utf8(&bytes).is_err() {
        // For example a list in DER after one in PEM, which would be ignored.
        return Err(CredentialsError::new("crl", file, Problem::Mixed));
    }
    for list in &lists {
        if !matches!(CertificateRevocationList::from_der(list), Ok(([], _))) {
            return Err(CredentialsError::new("crl", file, Problem::NoList));
        }
    }
    Ok(lists)
}
