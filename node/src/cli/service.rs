//! Reports of a node to a service manager, systemd: the node listens, where it stands, its loop
//! answers, it leaves.
//!
//! A node listens long before it is a member, which may take as long as the other nodes need to
//! start. So READY means "listens", and membership is in the status line.

use std::convert::Infallible;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::node::Node;
use crate::report::NodeReport;

/// The pause between two reports, unless the watchdog wants them more often.
const LOOK: Duration = Duration::from_secs(2);

/// Logged once each time that the service manager stops taking reports.
const DEAF: &str = "the service manager cannot be notified";

/// Report to the service manager, if there is one, as long as the node runs. A node whose loop
/// hangs answers no question, so the watchdog gets no report.
pub(super) async fn tell(node: &Node) -> Infallible {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return std::future::pending().await;
    }
    send(&[NotifyState::Ready, NotifyState::Status("listens")]);
    let mut is_heard = true;
    let period = sd_notify::watchdog_enabled().map_or(LOOK, |within| (within / 3).min(LOOK));
    while let Ok(report) = node.report().await {
        let standing = standing(&report);
        let states = [NotifyState::Watchdog, NotifyState::Status(&standing)];
        let sent = sd_notify::notify(&states);
        if let (Err(error), true) = (&sent, is_heard) {
            tracing::warn!(%error, "{DEAF}");
        }
        is_heard = sent.is_ok();
        tokio::time::sleep(period).await;
    }
    std::future::pending().await
}

/// Report that the node leaves.
pub(super) fn stopping() {
    send(&[NotifyState::Stopping, NotifyState::Status("leaves")]);
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "{DEAF}");
    }
}

fn standing(report: &NodeReport) -> String {
    let place = match (report.rank, report.population) {
        (Some(rank), Some(population)) => format!("rank {rank} of {population}"),
        _ => "no member yet".to_owned(),
    };
    match &report.reason {
        Some(reason) => format!("{place}; not ready: {reason}"),
        None => format!("{place}; ready"),
    }
}
