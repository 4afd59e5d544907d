//! `ca init` and `ca issue`.

use super::Failure;
use super::arguments::CaCommand;
use crate::certificate::{Authority, CertificateError, Validity};

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
            .and_then(|issued| issued.save(out, *force))
            .map(|()| format!("{} holds the certificate of {name}", out.display())),
    };
    let said = done.map_err(|error| match error {
        CertificateError::Name(_)
        | CertificateError::TrustDomain(_)
        | CertificateError::Exists(_) => Failure::usage(error),
        _ => Failure::failed(error),
    })?;
    eprintln!("{said}");
    Ok(())
}
