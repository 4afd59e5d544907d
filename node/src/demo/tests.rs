use super::*;
use crate::verify::tests::flawless;

fn member(report: &NodeReport) -> Member {
    Member {
        name: report.name.clone(),
        id: report.id.to_string(),
        pid: 1,
        address: report.address,
        admin_socket: "s".into(),
        metrics_url: String::new(),
    }
}

#[test]
fn each_node_is_named_with_the_condition_that_it_does_not_meet() {
    let reports = flawless(4);
    let members: Vec<Member> = reports.iter().map(member).collect();
    let answers = |edit: fn(&mut Vec<NodeReport>)| {
        let mut reports = reports.clone();
        edit(&mut reports);
        missing(&members, &reports.into_iter().map(Ok).collect::<Vec<_>>())
    };
    assert_eq!(answers(|_| ()), [""; 0]);
    let sick = answers(|all| {
        all[2].healthy = false;
        all[2].reason = Some("clockwise[1] unset".into());
    });
    assert_eq!(sick, ["node-2: clockwise[1] unset"]);
    let few = answers(|all| all[1].population = Some(3));
    assert_eq!(few, ["node-1: it counts 3 of 4 nodes"]);
    let split = answers(|all| all[1].epoch = Some("other".into()));
    assert_eq!(split.len(), 1);
    let mut silent: Vec<Result<NodeReport, String>> = reports.into_iter().map(Ok).collect();
    silent[3] = Err("does not answer".into());
    assert_eq!(missing(&members, &silent), ["node-3: does not answer"]);
}

#[test]
fn victims_are_a_leaf_and_an_inner_node_and_never_the_root() {
    let flat = flawless(5);
    let [leaf, second] = victims(&flat);
    assert_eq!(
        leaf.map(|(report, role)| (report.rank, role)),
        Some((Some(1), "leaf"))
    );
    assert_eq!(
        second.map(|(report, role)| (report.rank, role)),
        Some((Some(2), "leaf"))
    );
    let mut deep = flawless(5);
    deep[2].parent = Some("node-1".into());
    deep[1].children = vec!["node-2".into()];
    let [leaf, second] = victims(&deep);
    assert_eq!(
        leaf.map(|(report, role)| (report.rank, role)),
        Some((Some(3), "leaf"))
    );
    assert_eq!(
        second.map(|(report, role)| (report.rank, role)),
        Some((Some(1), "inner"))
    );
}
