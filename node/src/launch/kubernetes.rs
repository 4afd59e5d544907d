//! A pod of a StatefulSet, whose host name ends with its ordinal.

use super::peers::{self, PEERS};
use super::{Environment, HOST, Placement, Request, host_name, refuse, wrong};
use crate::config::ConfigError;

const EXAMPLE: &str =
    "run it as a StatefulSet, whose pods are called mesh-0, mesh-1 and so on, or give --ordinal";

/// The place of this pod among the hosts of `--peers`: those of a list, or of a template such as
/// `mesh-{}.mesh:7400`, in which `{}` stands for each ordinal.
pub(super) fn place(
    environment: &Environment,
    request: &Request,
) -> Result<Placement, ConfigError> {
    refuse(
        "hostfile",
        request.hostfile.is_some(),
        "Kubernetes",
        "; give --peers",
    )?;
    let (from, ordinal) = match request.ordinal {
        Some(ordinal) => ("flag --ordinal", ordinal),
        None => (HOST, ordinal(host_name(environment, EXAMPLE)?)?),
    };
    let Some(hosts) = peers::of_flag(request)? else {
        return Err(wrong(
            PEERS,
            "is not given, and Kubernetes does not say what the service is called",
            "give the pods' names below the headless service, such as --peers \
             'mesh-{}.mesh:7400', and --size with the number of replicas",
        ));
    };
    peers::placed(
        PEERS,
        &hosts,
        peers::Ordinal {
            value: ordinal,
            origin: from,
        },
        request.port,
    )
}

/// The number at the end of a pod's name.
fn ordinal(host: &str) -> Result<u32, ConfigError> {
    let pod = host.split('.').next().unwrap_or_default();
    let number = pod.rsplit_once('-').map(|(_, number)| number.parse());
    match number {
        Some(Ok(ordinal)) => Ok(ordinal),
        _ => Err(wrong(
            HOST,
            format!("is {host:?}, which does not end with - and an ordinal"),
            EXAMPLE,
        )),
    }
}
