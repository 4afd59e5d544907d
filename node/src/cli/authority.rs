//! The command `ca`: `init`, `issue`, `revoke`, `list` and `job-secret`.

use std::io::Write;
use std::path::Path;

use super::Failure;
use super::arguments::CaCommand;
use super::output::{Output, date, note};
use crate::certificate::{
    Authority, CertificateError, Entry, Issued, JobSecret, Ledger, Role, Validity,
};
use crate::state::{private_dir, replace};

/// The file name of a revocation list.
const LIST: &str = "crl.pem";
/// The file name of a node's settings.
const SETTINGS: &str = "node.toml";

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
            holder,
            valid_days,
            out,
            force,
        } => {
            let validity = Validity::days(*valid_days);
            let (role, name) = holder.named();
            issue(dir, role, name, validity, out, *force)
        }
        CaCommand::Revoke {
            dir,
            holder,
            valid_days,
            out,
        } => {
            let out = out.clone().unwrap_or_else(|| dir.join(LIST));
            let validity = Validity::days(*valid_days);
            let (role, name) = holder.named();
            revoke(dir, role, name, validity, &out)
        }
        CaCommand::List { dir, json } => return list(dir, *json),
        CaCommand::JobSecret { out, force } => return job_secret(out.as_deref(), *force),
    };
    note(done.map_err(failure)?);
    Ok(())
}

/// Issue a certificate. It is recorded before it is handed out, and the record is removed if it
/// could not be handed out.
fn issue(
    dir: &Path,
    role: Role,
    name: &str,
    validity: Validity,
    out: &Path,
    force: bool,
) -> Result<String, CertificateError> {
    let authority = Authority::load(dir)?;
    let issued = authority.issue_to(role, name, validity)?;
    if !force {
        Issued::check_room(out, role)?;
    }
    let ledger = Ledger::of(dir);
    ledger.record(&issued)?;
    let handed_out = || {
        // The certificate and its key come last: the other files are harmless without them.
        let next = match role {
            Role::Node => prepared(out, name, &authority, &ledger)?,
            Role::Monitor => {
                "nodes with `metrics_tls = true` serve their metrics to this monitor".to_owned()
            }
        };
        issued.save_as(role, out, force)?;
        Ok(next)
    };
    match handed_out() {
        Ok(next) => {
            let (out, role) = (out.display(), role.name());
            Ok(format!(
                "{out} holds the certificate of the {role} {name}; {next}"
            ))
        }
        Err(error) => {
            // If this fails too, the user needs the first error more.
            let _ = ledger.forget(&issued);
            Err(error)
        }
    }
}

/// Write the files that a node needs besides its certificate: a revocation list, and settings
/// unless they exist. Returns what the user can do next.
fn prepared(
    out: &Path,
    name: &str,
    authority: &Authority,
    ledger: &Ledger,
) -> Result<String, CertificateError> {
    let settings = out.join(SETTINGS);
    let is_new = !settings.is_file();
    if is_new {
        written_into(out, &settings, &settings_of(name))?;
    }
    // Later lists replace this list without a change of settings. The next list is due only when
    // the authority ends, so this list is not overdue before.
    let list = ledger.revocation_list(authority, authority.rest())?;
    written_into(out, &out.join(LIST), &list)?;
    let settings = settings.display();
    Ok(match is_new {
        true => format!("start the node with `binomesh run --config {settings}`"),
        false => format!("{settings} is unchanged"),
    })
}

/// Settings with which a node can run, as the first of its cluster.
fn settings_of(name: &str) -> String {
    format!(
        r#"# The node {name}. Paths are relative to this file. `deploy/node.toml` has all settings.
name = "{name}"
bind = "[::]:7400"
# parent = "NAME@HOST:7400"    # at all nodes but the first: another one that runs

certificate = "node.pem"
key = "node.key"
ca = "ca.pem"
crl = "crl.pem"                # replaced after `binomesh ca revoke`; read again at SIGHUP

state_dir = "state"
admin_socket = "admin.sock"
"#
    )
}

fn revoke(
    dir: &Path,
    role: Role,
    name: &str,
    validity: Validity,
    out: &Path,
) -> Result<String, CertificateError> {
    let authority = Authority::load(dir)?;
    let ledger = Ledger::of(dir);
    ledger.revoke(role, name)?;
    written(out, &ledger.revocation_list(&authority, validity)?)?;
    let (out, role) = (out.display(), role.name());
    Ok(format!(
        "{out} revokes the {role} {name}; put it beside ca.pem at all nodes, as {LIST}, and send each SIGHUP"
    ))
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
            "{out} exists already; name another file, or pass --force to replace this one"
        )));
    }
    written(out, &secret).map_err(failure)?;
    note(format_args!("{} holds a new secret", out.display()));
    Ok(())
}

fn failure(error: CertificateError) -> Failure {
    match error {
        CertificateError::Name(_)
        | CertificateError::TrustDomain(_)
        | CertificateError::NeverIssued(..)
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

/// As [`written`], into a folder that is made if it does not exist.
fn written_into(dir: &Path, path: &Path, text: &str) -> Result<(), CertificateError> {
    private_dir(dir).map_err(|source| CertificateError::File {
        doing: "create",
        path: dir.to_owned(),
        source,
    })?;
    written(path, text)
}

fn list(dir: &Path, json: bool) -> Result<(), Failure> {
    Authority::load(dir).map_err(failure)?;
    let mut output = Output::stdout(json);
    for entry in Ledger::of(dir).list().map_err(failure)? {
        output.line(&entry, |entry| {
            let Entry {
                name,
                role,
                serial,
                from,
                until,
                revoked,
            } = entry;
            let state = if *revoked { "revoked" } else { "issued" };
            let (from, until) = (date(*from), date(*until));
            let role = role.name();
            format!("{name:<20} {role:<8} {state:<8} from {from} until {until} serial {serial}")
        })?;
    }
    Ok(())
}
