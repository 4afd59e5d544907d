//! A pod of a StatefulSet, whose host name ends with its ordinal.

use super::peers::{self, PEERS};
use super::{Environment, HOST, Placement, Request, host_name, wrong};
use crate::config::ConfigError;

const EXAMPLE: &str = "run the node in a StatefulSet, whose pods are called mesh-0, mesh-1 and so on, or give \
     --ordinal";

/// The place of this pod among the hosts of `--peers`: those of a list, or of a template such as
/// `mesh-{}.mesh:7400`, in which `{}` stands for each ordinal.
pub(super) fn place(
    environment: &Environment,
    request: &Request,
) -> Result<Placement, ConfigError> {
    if request.hostfile.is_some() {
        let problem = "is given, but --launch kubernetes reads no host file";
        let remedy = "leave out --hostfile, and give --peers";
        return Err(wrong("flag --hostfile", problem, remedy));
    }
    let (from, ordinal) = match request.ordinal {
        Some(ordinal) => ("flag --ordinal", ordinal),
        None => (HOST, ordinal(host_name(environment, EXAMPLE)?)?),
    };
    let Some(hosts) = peers::of_flag(request)? else {
        return Err(wrong(
            PEERS,
            "is not given, and Kubernetes does not tell a pod the name of its service",
            "give --size with the number of replicas, and --peers with the names of the pods in \
             the headless service, such as 'mesh-{}.mesh:7400'",
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
            format!(
                "is {host:?}; expected a name that ends with a hyphen and an ordinal, such as \
                     mesh-0"
            ),
            EXAMPLE,
        )),
    }
}
