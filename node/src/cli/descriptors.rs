//! The limit of files and connections that this process may have open at once.

use rustix::process::{Resource, getrlimit, setrlimit};

use super::Failure;

/// The descriptors that `up` needs for each of its nodes: the node's input, its output, and two
/// connections. A guess: with less, a large cluster fails halfway through its start.
const OF_A_NODE: u64 = 4;
/// The descriptors that any command needs besides.
const OF_ITSELF: u64 = 64;

/// Raise the limit as far as this process may; child processes inherit it. The usual limit is meant
/// for programs that cannot use more. It is an error if the limit is below [`OF_ITSELF`] even then.
pub(super) fn raise() -> Result<(), Failure> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // If this fails, the limit stays as it is.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    match limit.current.filter(|limit| *limit < OF_ITSELF) {
        None => Ok(()),
        Some(limit) => Err(Failure::failed(format!(
            "the limit of open files is {limit}, but this program needs {OF_ITSELF}; raise the \
             limit, such as with `ulimit -n {OF_ITSELF}`"
        ))),
    }
}

/// Check that the limit allows to start `nodes` nodes from here.
pub(super) fn check(nodes: u32) -> Result<(), Failure> {
    check_within(nodes, getrlimit(Resource::Nofile).current)
}

fn check_within(nodes: u32, limit: Option<u64>) -> Result<(), Failure> {
    let wanted = OF_A_NODE * u64::from(nodes) + OF_ITSELF;
    match limit.filter(|limit| *limit < wanted) {
        None => Ok(()),
        Some(limit) => Err(Failure::failed(format!(
            "{nodes} nodes need about {wanted} open files, but the limit is {limit}; raise the \
             limit as root, such as with `ulimit -Hn {wanted}`, or start fewer nodes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_low_a_limit_is_named_with_the_needed_one() {
        assert_eq!(check_within(1000, None), Ok(()));
        assert_eq!(check_within(16, Some(128)), Ok(()));
        let failure = check_within(17, Some(128)).unwrap_err();
        assert!(failure.message.contains("132") && failure.message.contains("128"));
    }
}
