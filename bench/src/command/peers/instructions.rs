//! The processor's instructions per delivery, counted by valgrind. Neither other processes nor the
//! speed of the machine change this figure.
//!
//! A cluster also works while no message is sent, and under valgrind it does so for longer. So the
//! instructions of an idle stretch of the same length are subtracted from each stretch of work.

use super::callgrind;
use super::figures::{Figure, Figures, IDLE, System};
use super::stretches::{Stretch, Work};
use super::{Failure, Peers};
use crate::hosts::namespace::is_installed;
use crate::record;

/// Check that instructions can be counted on this machine.
pub(super) fn require_valgrind() -> Result<(), Failure> {
    match is_installed("valgrind") {
        true => Ok(()),
        false => Err(Failure::Run(
            "`valgrind`, which counts the instructions, is not installed; install the package \
             valgrind"
                .to_owned(),
        )),
    }
}

/// Count the instructions of ours, and with `--floor` also of the tree.
pub(super) fn count(peers: &Peers, figures: &mut Figures) -> Result<(), Failure> {
    let systems: &[System] = match peers.floor {
        true => &[System::Tree, System::Ours],
        false => &[System::Ours],
    };
    for system in systems {
        record::progress(format_args!("{} under valgrind", system.name()));
        let folder = tempfile::tempdir().map_err(Failure::run)?;
        let (printed, parts) = callgrind::run(&arguments(peers, *system), folder.path())?;
        let stretches: Result<Vec<Stretch>, _> =
            printed.lines().map(serde_json::from_str).collect();
        let stretches = stretches.map_err(Failure::run)?;
        for (workload, figure, value) in judge(&stretches, &parts)? {
            figures.add(*system, workload, figure, value);
        }
    }
    record::progress_done();
    Ok(())
}

fn arguments(peers: &Peers, system: System) -> Vec<String> {
    let workloads: Vec<&str> = peers
        .workload
        .iter()
        .map(|workload| workload.name())
        .collect();
    let mut arguments: Vec<String> = ["peers", "--stretches-of", system.name()]
        .map(str::to_owned)
        .into();
    for (option, value) in [
        ("nodes", peers.nodes.to_string()),
        ("profile", peers.profile.to_string()),
        ("workload", workloads.join(",")),
        ("window-mib", peers.window_mib.to_string()),
        ("timeout-seconds", peers.timeout_seconds.to_string()),
    ] {
        arguments.extend([format!("--{option}"), value]);
    }
    if peers.signatures {
        arguments.push("--signatures".to_owned());
    }
    if peers.queued {
        arguments.push("--queued".to_owned());
    }
    arguments
}

/// The figures of stretches of work, by workload. `parts` are the instructions of each stretch,
/// followed by the part after the last mark.
fn judge<'a>(
    stretches: &'a [Stretch],
    parts: &[u64],
) -> Result<Vec<(&'a str, Figure, f64)>, Failure> {
    if parts.len() != stretches.len() + 1 {
        let (parts, stretches) = (parts.len(), stretches.len());
        return Err(Failure::Run(format!(
            "valgrind has counted {parts} parts; expected one for each of the {stretches} \
             stretches of work, and one for the end"
        )));
    }
    let counted = || stretches.iter().zip(parts.iter().copied());
    let idle = counted().find(|(stretch, _)| stretch.work == Work::Idle);
    let per_second = idle.map(|(stretch, count)| count as f64 / stretch.seconds);
    let per_second = per_second.filter(|rate| rate.is_finite());
    let per_second = per_second
        .ok_or_else(|| Failure::run("valgrind has counted no instructions of idle nodes"))?;
    let mut values = vec![(IDLE, Figure::IdleInstructionsPerSecond, per_second)];
    for (stretch, count) in counted() {
        let (instructions, packets) = match stretch.work {
            Work::Preparing | Work::Idle => continue,
            Work::Single => (
                Figure::InstructionsPerSingleDelivery,
                Figure::CountedPacketsPerSingleDelivery,
            ),
            Work::BackToBack => (
                Figure::InstructionsPerDelivery,
                Figure::CountedPacketsPerDelivery,
            ),
        };
        let own = (count as f64 - per_second * stretch.seconds).max(0.0);
        let deliveries = stretch.deliveries as f64;
        let workload = stretch.workload.as_str();
        values.push((workload, instructions, own / deliveries));
        values.push((workload, packets, stretch.packets as f64 / deliveries));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(work: Work, deliveries: u64, seconds: f64) -> Stretch {
        let workload = "1KiB".to_owned();
        Stretch {
            work,
            workload,
            deliveries,
            seconds,
            packets: 2 * deliveries,
        }
    }

    #[test]
    fn instructions_of_idle_nodes_are_not_counted_for_deliveries() {
        let stretches = [
            stretch(Work::Preparing, 0, 9.0),
            stretch(Work::Idle, 0, 4.0),
            stretch(Work::Single, 10, 2.0),
            stretch(Work::BackToBack, 100, 1.0),
            stretch(Work::BackToBack, 100, 100.0),
        ];
        let parts = [77_777, 4000, 5000, 7000, 7000, 55_555];
        let values = judge(&stretches, &parts).unwrap();
        let expected = [
            ("idle", Figure::IdleInstructionsPerSecond, 1000.0),
            ("1KiB", Figure::InstructionsPerSingleDelivery, 300.0),
            ("1KiB", Figure::CountedPacketsPerSingleDelivery, 2.0),
            ("1KiB", Figure::InstructionsPerDelivery, 60.0),
            ("1KiB", Figure::CountedPacketsPerDelivery, 2.0),
            // A difference below 0 counts as 0.
            ("1KiB", Figure::InstructionsPerDelivery, 0.0),
            ("1KiB", Figure::CountedPacketsPerDelivery, 2.0),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn parts_that_do_not_fit_the_stretches_are_an_error() {
        let idle = [stretch(Work::Idle, 0, 4.0)];
        assert!(judge(&idle, &[1, 2]).is_ok());
        for parts in [&[][..], &[1], &[1, 2, 3]] {
            assert!(judge(&idle, parts).is_err(), "{parts:?}");
        }
        assert!(judge(&[stretch(Work::Single, 1, 1.0)], &[1, 2]).is_err());
    }
}
