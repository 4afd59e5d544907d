//! `ca`: `init`, `issue`, `revoke` and `list`.

use std::io::Write;
use std::path::Path;

use super::Failure;
use super::arguments::CaCommand;
use super::output::Output;
use crate::certificate::{Authority, CertificateError, Entry, JobSecret, Ledger, Validity};
use crate::state::replace;

pub(super) fn ca(command: &CaCommand) -> Result<(), Failure> {
    let done = match command {
        CaCommand::Init {
            dir,
            trust_domain,
            valid_days,
            force,
        } => Authority::generate(trust_domain, Validity::days(*valid_days))
            .and_then(|authority| authority.save(dir, *force))
            .map(|()| format!("{} holds the authority of {trust_domain}", dir.display())),
        CaCommand::Issue {
            dir,
            name,
            valid_days,
            out,
            force,
        } => Authority::load(dir)
            .and_then(|authority| authority.issue(name, Validity::days(*valid_days)))
            .and_then(|issued| Ledger::of(dir).record(&issued).map(|()| issued))
            .and_then(|issued| issued.save(out, *force))
            .map(|()| format!("{} holds the certificate of {name}", out.display())),
        CaCommand::Revoke {
            dir,
            name,
            valid_days,
            out,
        } => {
            let out = out.clone().unwrap_or_else(|| dir.join("crl.pem"));
            let validity = Validity::days(*valid_days);
            Authority::load(dir)
                .and_then(|authority| Ledger::of(dir).revoke(&authority, name, validity))
                .and_then(|list| written(&out, &list))
                .map(|()| format!("{} revokes {name}; give it to all nodes", out.display()))
        }
        CaCommand::List { dir, json } => return list(dir, *json),
        CaCommand::JobSecret { out, force } => return job_secret(out.as_deref(), *force),
    };
    eprintln!("{}", done.map_err(failure)?);
    Ok(())
}

fn job_secret(out: Option<&Path>, force: bool) -> Result<(), Failure> {
    let secret = JobSecret::generate().map_err(Failure::failed)?;
    let Some(out) = out else {
        let written = std::io::stdout().write_all(secret.as_bytes());
        return written.map_err(|error| Failure::failed(format!("standard output: {error}")));
    };
    if !force && std::fs::symlink_metadata(out).is_ok() {
        let out = out.display();
        return Err(Failure::usage(format!(
            "{out} exists already; name another file, or pass --force to replace it"
        )));
    }
    written(out, &secret).map_err(failure)?;
    eprintln!("{} holds a new secret", out.display());
    Ok(())
}

fn failure(error: CertificateError) -> Failure {
    match error {
        CertificateError::Name(_)
        | CertificateError::TrustDomain(_)
        | CertificateError::NeverIssued(_)
        | CertificateError::Exists(_) => Failure::usage(error),
        _ => Failure::failed(error),
    }
}

fn written(path: &Path, text: &str) -> Result<(), CertificateError> {
    replace(path, text.as_bytes()).map_err(|source| CertificateError::File {
        doing: "write",
        path: path.to_owned(),
        source,
    })
}

fn list(dir: &Path, json: bool) -> Result<(), Failure> {
    Authority::load(dir).map_err(failure)?;
    let mut output = Output::stdout(json);
    for entry in Ledger::of(dir).list().map_err(failure)? {
        output.line(&entry, |entry| {
            let Entry {
                name,
                serial,
                from,
                until,
                revoked,
            } = entry;
            let state = if *revoked { "revoked" } else { "issued" };
            format!("{name:<20} {state:<8} from {from} until {until} serial {serial}")
        })?;
    }
    Ok(())
}
