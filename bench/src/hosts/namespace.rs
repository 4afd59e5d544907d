//! A network namespace for this run alone. Traffic of other processes is not counted in it, and
//! nothing in it is visible outside. It has no name, and ends with the last process in it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::HostError;

/// Tells the program inside the namespace which namespace it has left.
const OUTSIDE: &str = "BINOMESH_BENCH_OUTSIDE";

/// Run this command again in a namespace of its own. Returns only inside, or with the reason why
/// there can be none.
pub fn enter() -> Result<(), HostError> {
    let here = current()?;
    if let Some(outside) = std::env::var_os(OUTSIDE) {
        return match outside == here {
            false => Ok(()),
            true => Err(HostError::NoNamespace(
                "the network namespace was not made".to_owned(),
            )),
        };
    }
    for (program, package) in [("unshare", "util-linux"), ("ip", "iproute2")] {
        require(program, package)?;
    }
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        // Become root in a user namespace of its own, if the system allows that.
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--net", "--", "sh", "-c"])
        .arg(r#"PATH="$PATH:/usr/sbin:/sbin" ip link set lo up && exec "$0" "$@""#)
        .arg(std::env::current_exe().map_err(no_program)?)
        .args(std::env::args_os().skip(1))
        .env(OUTSIDE, here);
    // The new program replaces this process, so no process is left that would have to forward
    // signals.
    let error = command.exec();
    Err(HostError::NotRun {
        line: "unshare".to_owned(),
        source: error,
    })
}

fn no_program(error: std::io::Error) -> HostError {
    HostError::NoNamespace(format!("the path of this program is unknown: {error}"))
}

fn current() -> Result<OsString, HostError> {
    let link = std::fs::read_link("/proc/self/ns/net").map_err(|error| {
        HostError::NoNamespace(format!("this system has no network namespaces: {error}"))
    })?;
    Ok(link.into_os_string())
}

/// Return an error with the remedy, unless the program is installed.
pub(super) fn require(program: &'static str, package: &'static str) -> Result<(), HostError> {
    match is_installed(program) {
        true => Ok(()),
        false => Err(HostError::NotInstalled { program, package }),
    }
}

/// Whether a program is in the path or in the folders for administrators.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // `ip` is often outside an ordinary user's path.
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.any(|folder| Path::new(&folder).join(program).is_file())
}
