//! The ledger in an authority's folder: every certificate that the authority issued or revoked, one
//! file each, named by serial number.
//!
//! ```text
//!   issued/SERIAL.pem     written before the certificate is handed out
//!   revoked/SERIAL.pem    a copy; lists are made of these
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use x509_parser::prelude::GeneralName;

use super::{Authority, CertificateError, Issued, Role, Validity, private_dir, read, replace};
use crate::state::wall_clock_seconds;

/// The ledger of an authority in a folder.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
}

/// A certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Entry {
    /// The name of the node or monitor.
    pub name: String,
    /// Whether its owner is a node or a monitor.
    pub role: Role,
    /// The certificate's serial number, hexadecimal.
    pub serial: String,
    /// The first second of its validity, since 1970.
    pub from: i64,
    /// The last second of its validity.
    pub until: i64,
    /// Whether the certificate was revoked.
    pub revoked: bool,
}

impl Ledger {
    /// The ledger of the authority in `dir`.
    pub fn of(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Self { dir }
    }

    /// Record a certificate before it is handed out.
    pub fn record(&self, issued: &Issued) -> Result<(), CertificateError> {
        let entry = entry(&issued.certificate_pem).map_err(CertificateError::Unreadable)?;
        self.write("issued", &entry.serial, &issued.certificate_pem)
    }

    /// Remove a certificate that was not handed out after all.
    pub fn forget(&self, issued: &Issued) -> Result<(), CertificateError> {
        let entry = entry(&issued.certificate_pem).map_err(CertificateError::Unreadable)?;
        let path = self
            .dir
            .join("issued")
            .join(format!("{}.pem", entry.serial));
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    /// All issued certificates, by name.
    pub fn list(&self) -> Result<Vec<Entry>, CertificateError> {
        let revoked = self.all("revoked")?;
        let is_revoked = |pem: &str| revoked.iter().any(|(other, _)| other == pem);
        let mut entries = Vec::new();
        for (pem, mut entry) in self.all("issued")? {
            entry.revoked = is_revoked(&pem);
            entries.push(entry);
        }
        entries.sort();
        Ok(entries)
    }

    /// Mark every certificate of a node or a monitor as revoked, for the next
    /// [`Ledger::revocation_list`].
    pub fn revoke(&self, role: Role, name: &str) -> Result<(), CertificateError> {
        let mut found = false;
        for (pem, entry) in self.all("issued")? {
            if entry.role == role && entry.name == name {
                self.write("revoked", &entry.serial, &pem)?;
                found = true;
            }
        }
        if !found {
            let name = name.chars().take(64).collect();
            return Err(CertificateError::NeverIssued(role, name));
        }
        Ok(())
    }

    /// Make the revocation list (PEM) of all revoked certificates that have not expired. The next
    /// list is due when `validity` ends.
    pub fn revocation_list(
        &self,
        authority: &Authority,
        validity: Validity,
    ) -> Result<String, CertificateError> {
        let now = wall_clock_seconds();
        let mut revoked = self.all("revoked")?;
        revoked.retain(|(_, entry)| entry.until >= now);
        let revoked: Vec<&str> = revoked.iter().map(|(pem, _)| pem.as_str()).collect();
        authority.revoke(&revoked, validity)
    }

    fn write(&self, folder: &str, serial: &str, pem: &str) -> Result<(), CertificateError> {
        let dir = self.dir.join(folder);
        private_dir(&dir).map_err(failed("create", &dir))?;
        let path = dir.join(format!("{serial}.pem"));
        replace(&path, pem.as_bytes()).map_err(failed("write", &path))
    }

    /// All certificates of a folder. One that cannot be read is an error: a list
    /// without it would let a revoked node in again.
    fn all(&self, folder: &str) -> Result<Vec<(String, Entry)>, CertificateError> {
        let dir = self.dir.join(folder);
        let files = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed("read", &dir))?,
        };
        let mut all = Vec::new();
        for file in files {
            let path = file.map_err(failed("read", &dir))?.path();
            if path.extension().is_some_and(|extension| extension == "pem") {
                let pem = read(&path)?;
                let entry = entry(&pem).map_err(|error| {
                    let path = path.display();
                    CertificateError::Unreadable(format!(
                        "{path}: {error}; restore the file from \
                                                          a backup"
                    ))
                })?;
                all.push((pem, entry));
            }
        }
        Ok(all)
    }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CertificateError {
    let path = path.to_owned();
    move |source| CertificateError::File {
        doing,
        path,
        source,
    }
}

fn entry(certificate_pem: &str) -> Result<Entry, String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(certificate_pem.as_bytes())
        .map_err(|error| error.to_string())?;
    let certificate = pem.parse_x509().map_err(|error| error.to_string())?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.as_slice());
    let mut uris = names
        .unwrap_or_default()
        .iter()
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
    let uri = uris.next().filter(|_| uris.next().is_none());
    let named = uri.and_then(Role::of_uri);
    let (role, name) = named.ok_or("the certificate names neither a node nor a monitor")?;
    let serial = certificate.raw_serial().iter();
    Ok(Entry {
        name: name.to_owned(),
        role,
        serial: serial.map(|byte| format!("{byte:02x}")).collect(),
        from: certificate.validity().not_before.timestamp(),
        until: certificate.validity().not_after.timestamp(),
        revoked: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_all_that_are_revoked_and_only_those() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(10)).unwrap();
        let ledger = Ledger::of(dir.path());
        assert_eq!(ledger.list().unwrap(), []);
        for name in ["a", "b", "b", "c"] {
            let issued = authority.issue(name, Validity::days(1)).unwrap();
            ledger.record(&issued).unwrap();
        }
        let revoke = |name| {
            ledger.revoke(Role::Node, name)?;
            ledger.revocation_list(&authority, Validity::days(1))
        };
        assert!(matches!(
            revoke("d"),
            Err(CertificateError::NeverIssued(..))
        ));
        revoke("a").unwrap();
        let list = revoke("b").unwrap();
        let entries = ledger.list().unwrap();
        let states: Vec<_> = entries.iter().map(|e| (&*e.name, e.revoked)).collect();
        assert_eq!(
            states,
            [("a", true), ("b", true), ("b", true), ("c", false)]
        );
        let pem = x509_parser::pem::parse_x509_pem(list.as_bytes()).unwrap().1;
        let (_, list) = x509_parser::parse_x509_crl(&pem.contents).unwrap();
        let mut serials: Vec<String> = list
            .iter_revoked_certificates()
            .map(|one| {
                one.raw_serial()
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect()
            })
            .collect();
        serials.sort();
        let mut expected: Vec<_> = entries.iter().take(3).map(|e| e.serial.clone()).collect();
        expected.sort();
        assert_eq!(serials, expected);
    }

    #[test]
    fn a_monitor_is_listed_and_revoked_apart_from_a_node_of_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(10)).unwrap();
        let ledger = Ledger::of(dir.path());
        for role in Role::ALL {
            let issued = authority.issue_to(role, "a", Validity::days(1)).unwrap();
            ledger.record(&issued).unwrap();
        }
        assert!(ledger.revoke(Role::Monitor, "b").is_err());
        ledger.revoke(Role::Monitor, "a").unwrap();
        let entries = ledger.list().unwrap();
        let states: Vec<_> = entries.iter().map(|e| (e.role, e.revoked)).collect();
        assert_eq!(states, [(Role::Node, false), (Role::Monitor, true)]);
    }

    #[test]
    fn nobody_is_let_in_again_by_a_file_that_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate("test.local", Validity::days(10)).unwrap();
        let ledger = Ledger::of(dir.path());
        for name in ["a", "b"] {
            let issued = authority.issue(name, Validity::days(1)).unwrap();
            ledger.record(&issued).unwrap();
        }
        let revoke = |name| {
            ledger.revoke(Role::Node, name)?;
            ledger.revocation_list(&authority, Validity::days(1))
        };
        revoke("a").unwrap();
        let file = fs::read_dir(dir.path().join("revoked")).unwrap().next();
        let path = file.unwrap().unwrap().path();
        fs::write(&path, "garbage").unwrap();
        let error = revoke("b").unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
    }
}
