use super::*;

/// The row of a command line.
fn route(line: &str) -> Result<Row, String> {
    use clap::Parser;
    let words = ["binomesh-bench", "route"]
        .into_iter()
        .chain(line.split_whitespace());
    match super::super::Arguments::try_parse_from(words) {
        Ok(super::super::Arguments {
            command: super::super::Command::Route(route),
        }) => route.measure(),
        Ok(_) => Err("another command".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn dead_are_a_number_or_a_share() {
    assert_eq!("3".parse(), Ok(Dead::Count(3)));
    assert_eq!("5%".parse::<Dead>().map(|dead| dead.of(1023)), Ok(51));
    for text in ["", "-1", "101%", "many", "NaN%"] {
        assert_eq!(text.parse::<Dead>(), Err(InvalidDead), "{text}");
    }
}

#[test]
fn impossible_arguments_are_named_with_their_remedy() {
    let cases = [
        ("--nodes 1", "--nodes 2"),
        ("--nodes 64 --dead 63", "--dead 62"),
        ("--nodes 64 --dead 64 --cast broadcast", "--dead 63"),
        ("--router binomial --graph sibling", "--graph sibling+bmg"),
        ("--cast broadcast --where wall", "--cast unicast"),
        ("--nodes 8 --dead 5 --where subtree", "--more-nodes"),
        ("--fanout 1", "--fanout"),
        ("--nodes 0", "--nodes"),
    ];
    for (line, remedy) in cases {
        let reason = route(line).unwrap_err();
        let remedy = remedy.replace("--more-nodes", "more --nodes");
        assert!(reason.contains(&remedy), "{line}: {reason}");
    }
}

#[test]
fn all_cases_of_a_small_tree_are_counted_once() {
    let row = route("--nodes 9 --fanout 3 --dead 2 --router variant").unwrap();
    // C(9, 2) sets, each with 7 live nodes.
    assert_eq!((row.sets, row.cases), (Sets::Exhaustive, 36 * 7 * 6));
    assert_eq!(row.delivered_share, row.connected_share);
    let row = route("--nodes 9 --dead 2 --cast broadcast").unwrap();
    assert_eq!((row.sets, row.cases), (Sets::Exhaustive, 28));
}

#[test]
fn threads_change_nothing_and_seeds_do() {
    let line = "--nodes 200 --dead 20 --sample 500 --graph sibling+bmg";
    let row = |more: &str| {
        let row = route(&format!("{line} {more}")).unwrap();
        assert_eq!((row.sets, row.cases), (Sets::Sampled, 500));
        (row.hops_mean, row.hops_max, row.decisions)
    };
    assert_eq!(row("--threads 1"), row("--threads 3"));
    assert_ne!(row("--seed 1"), row("--seed 2"));
}

#[test]
fn without_dead_a_broadcast_takes_its_last_leaf_s_turns() {
    // The broadcast goes down level by level, and reaches each child a step later than the child
    // to its left.
    for (fanout, steps) in [(2, 6), (3, 6), (4, 6), (8, 8)] {
        let line = format!("--nodes 15 --fanout {fanout} --dead 0 --cast broadcast");
        let row = route(&line).unwrap();
        assert_eq!(
            (row.steps_max, row.delivered_share),
            (Some(steps), Some(1.0)),
            "{line}"
        );
    }
}

#[test]
fn aware_is_as_short_as_breadth_first_search_with_a_complete_list() {
    let row = route("--nodes 40 --fanout 4 --dead 1 --router aware --known").unwrap();
    assert_eq!(row.hops_mean, row.shortest_mean);
}

#[test]
fn once_loses_live_nodes_and_recursive_with_fingers_does_not() {
    let line = "--nodes 255 --dead 10% --cast broadcast --sample 40";
    let once = route(&format!("{line} --encapsulation once")).unwrap();
    let all = route(&format!("{line} --graph sibling+bmg")).unwrap();
    assert!(once.delivered_share < Some(1.0), "{once:?}");
    assert_eq!(
        (all.delivered_share, all.complete_share),
        (Some(1.0), Some(1.0))
    );
}
