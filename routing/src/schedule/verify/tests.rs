mod mutants;

use super::*;

/// A broadcast from node 0 of a ring of four, in two steps.
const BROADCAST: &str = r#"{"graph":"ring:4","collective":"oab","source":"0","faults":[],
    "model":"wormhole","ports":"all","excess":0,"blocks":1,"steps":2,"moves":[
    [1,"0","1",["0","1"],"0"],[1,"0","3",["0","3"],"0"],[2,"1","2",["1","2"],"0"]]}"#;

/// A scatter from node 0, hop by hop.
const RELAYED: &str = r#"{"graph":"ring:4","collective":"oas","source":"0","faults":[],
    "model":"store-forward","ports":"one","excess":0,"blocks":1,"steps":3,"moves":[
    [1,"0","1",["0","1"],["0","2"]],[2,"1","2",["1","2"],["0","2"]],
    [2,"0","3",["0","3"],["0","3"]],[3,"0","1",["0","1"],["0","1"]]]}"#;

fn read(text: &str) -> Schedule {
    serde_json::from_str(text).unwrap()
}

fn judge(schedule: &Schedule) -> Result<(), Defect> {
    verify(schedule, &Topology::generate("ring:4").unwrap())
}

/// The defect of a schedule after one change.
fn broken(text: &str, change: impl FnOnce(&mut Schedule)) -> Defect {
    let mut schedule = read(text);
    judge(&schedule).unwrap();
    change(&mut schedule);
    judge(&schedule).unwrap_err()
}

fn path(schedule: &mut Schedule, place: usize, nodes: &[&str]) {
    let one = &mut schedule.moves[place];
    one.path = nodes.iter().map(|node| (*node).to_owned()).collect();
    one.from = one.path.first().cloned().unwrap_or_default();
    one.to = one.path.last().cloned().unwrap_or_default();
}

#[test]
fn a_file_is_written_as_it_is_read_and_numbers_are_names() {
    for text in [BROADCAST, RELAYED] {
        let compact: String = text.split_whitespace().collect();
        assert_eq!(serde_json::to_string(&read(text)).unwrap(), compact);
    }
    let numbers = BROADCAST
        .replace(r#"["0","1"],"0""#, "[0,1],0")
        .replace(r#""source":"0""#, r#""source":0"#);
    judge(&read(&numbers)).unwrap();
    assert!(serde_json::from_str::<Schedule>(&BROADCAST.replace("blocks", "block")).is_err());
}

#[test]
fn rule_the_graph_is_that_of_the_header() {
    let defect = broken(BROADCAST, |one| one.graph = "ring:5".to_owned());
    assert!(matches!(defect, Defect::OtherGraph { .. }), "{defect}");
    let mut other_name = read(BROADCAST);
    other_name.graph = "ring:04".to_owned();
    assert_eq!(judge(&other_name), Ok(()));
    let defect = broken(BROADCAST, |one| one.graph = "file:ring".to_owned());
    assert!(matches!(defect, Defect::OtherGraph { .. }), "{defect}");
    let moved = Topology::from_edges("file:./new", "0 1\n1 2\n2 3\n3 0\n").unwrap();
    other_name.graph = "file:old".to_owned();
    assert_eq!(verify(&other_name, &moved), Ok(()));
    let graph = Topology::generate("ring:4").unwrap();
    let faulty = graph.with_faults(&["link:1-2".parse().unwrap()]).unwrap();
    assert!(verify(&read(BROADCAST), &faulty).is_err());
}

#[test]
fn rule_the_header_makes_sense() {
    let defect = broken(BROADCAST, |one| {
        one.faults = vec!["node:7".parse().unwrap()]
    });
    assert!(matches!(defect, Defect::Fault(_)), "{defect}");
    let defect = broken(BROADCAST, |one| one.source = None);
    assert!(matches!(defect, Defect::Header(_)), "{defect}");
}

#[test]
fn rule_steps_are_from_1_to_their_number() {
    let defect = broken(BROADCAST, |one| one.moves[2].step = 3);
    assert!(
        matches!(
            defect,
            Defect::NoStep {
                number: 3,
                step: 3,
                steps: 2
            }
        ),
        "{defect}"
    );
    let defect = broken(BROADCAST, |one| one.moves[0].step = 0);
    assert!(
        matches!(defect, Defect::NoStep { number: 1, .. }),
        "{defect}"
    );
}

#[test]
fn rule_no_step_is_empty() {
    let defect = broken(BROADCAST, |one| {
        one.steps = 3;
        one.moves[2].step = 3;
    });
    assert_eq!(defect, Defect::EmptyStep(2));
    // A number of steps for which no list has room.
    let defect = broken(BROADCAST, |one| one.steps = u32::MAX);
    assert_eq!(defect, Defect::EmptyStep(3));
}

#[test]
fn rule_nodes_exist_and_are_healthy() {
    let defect = broken(BROADCAST, |one| path(one, 0, &["0", "9", "1"]));
    assert!(
        matches!(defect, Defect::NoNode { number: 1, .. }),
        "{defect}"
    );
    let defect = broken(BROADCAST, |one| {
        one.faults = vec!["node:2".parse().unwrap()]
    });
    assert!(
        matches!(defect, Defect::NoNode { number: 3, .. }),
        "{defect}"
    );
}

#[test]
fn rule_a_path_has_both_ends() {
    let defect = broken(BROADCAST, |one| one.moves[0].path = vec!["1".to_owned()]);
    assert!(matches!(defect, Defect::Ends { number: 1, .. }), "{defect}");
    let defect = broken(BROADCAST, |one| one.moves[0].path.truncate(1));
    assert!(matches!(defect, Defect::Ends { number: 1, .. }), "{defect}");
    let defect = broken(BROADCAST, |one| one.moves[0].path.clear());
    assert!(matches!(defect, Defect::Ends { number: 1, .. }), "{defect}");
    let defect = broken(BROADCAST, |one| one.moves[0].to = "2".to_owned());
    assert!(matches!(defect, Defect::Ends { number: 1, .. }), "{defect}");
}

#[test]
fn rule_a_path_follows_healthy_channels() {
    let defect = broken(BROADCAST, |one| path(one, 2, &["0", "2"]));
    assert!(
        matches!(defect, Defect::NoChannel { number: 3, .. }),
        "{defect}"
    );
    let defect = broken(BROADCAST, |one| {
        one.faults = vec!["link:2-1".parse().unwrap()]
    });
    assert!(
        matches!(defect, Defect::NoChannel { number: 3, .. }),
        "{defect}"
    );
}

#[test]
fn rule_a_path_comes_to_no_node_twice() {
    let defect = broken(BROADCAST, |one| path(one, 2, &["1", "0", "1", "2"]));
    assert!(matches!(defect, Defect::Loop { number: 3, .. }), "{defect}");
}

#[test]
fn rule_a_path_is_as_long_as_the_excess_allows() {
    let longer = |one: &mut Schedule| path(one, 2, &["1", "0", "3", "2"]);
    let defect = broken(BROADCAST, longer);
    assert_eq!(
        defect,
        Defect::TooLong {
            number: 3,
            channels: 3,
            most: 1
        }
    );
    let mut schedule = read(BROADCAST);
    longer(&mut schedule);
    schedule.excess = 2;
    assert_eq!(judge(&schedule), Ok(()));
    schedule.excess = 1;
    assert!(judge(&schedule).is_err());
    // In store-forward a move has one hop, whatever the excess.
    let defect = broken(RELAYED, |one| {
        one.excess = 3;
        path(one, 0, &["0", "1", "2"]);
    });
    assert_eq!(
        defect,
        Defect::TooLong {
            number: 1,
            channels: 2,
            most: 1
        }
    );
}

#[test]
fn rule_the_message_is_one_of_the_collective() {
    for message in [
        Message::Of("1".to_owned()),
        Message::Of("9".to_owned()),
        Message::Block(1),
        Message::Between("0".to_owned(), "1".to_owned()),
    ] {
        let defect = broken(BROADCAST, |one| one.moves[0].message = message);
        assert!(
            matches!(defect, Defect::NoMessage { number: 1, .. }),
            "{defect}"
        );
    }
    for message in [
        Message::Of("0".to_owned()),
        Message::Between("1".to_owned(), "2".to_owned()),
        Message::Between("0".to_owned(), "0".to_owned()),
        Message::Between("0".to_owned(), "9".to_owned()),
    ] {
        let defect = broken(RELAYED, |one| one.moves[0].message = message);
        assert!(
            matches!(defect, Defect::NoMessage { number: 1, .. }),
            "{defect}"
        );
    }
}

#[test]
fn rule_a_message_goes_to_those_that_it_is_for() {
    let defect = broken(BROADCAST, |one| {
        one.receivers = Some(vec!["1".to_owned(), "2".to_owned()]);
    });
    assert!(
        matches!(defect, Defect::NotFor { number: 2, .. }),
        "{defect}"
    );
    let defect = broken(BROADCAST, |one| {
        one.moves[2].step = 1;
        path(one, 2, &["1", "0"]);
    });
    assert!(
        matches!(defect, Defect::NotFor { number: 3, .. }),
        "{defect}"
    );
}

#[test]
fn rule_a_channel_carries_one_message_per_step() {
    let defect = broken(BROADCAST, |one| {
        path(one, 2, &["0", "1", "2"]);
        one.moves[2].step = 1;
    });
    let (from, to) = ("0".to_owned(), "1".to_owned());
    assert_eq!(
        defect,
        Defect::Conflict {
            first: 1,
            second: 3,
            step: 1,
            from,
            to
        }
    );
}

#[test]
fn rule_a_node_with_one_port_sends_and_receives_once_per_step() {
    let defect = broken(BROADCAST, |one| one.ports = Ports::One);
    assert!(
        matches!(defect, Defect::Port { does: "sends", .. }),
        "{defect}"
    );
    let defect = broken(RELAYED, |one| one.moves[2].step = 1);
    assert!(
        matches!(defect, Defect::Port { does: "sends", .. }),
        "{defect}"
    );
    let both = r#"{"graph":"ring:4","collective":"aog","source":"0","faults":[],
        "model":"wormhole","ports":"one","excess":0,"blocks":1,"steps":1,"senders":["1","3"],
        "moves":[[1,"1","0",["1","0"],"1"],[1,"3","0",["3","0"],"3"]]}"#;
    let defect = judge(&read(both)).unwrap_err();
    assert!(
        matches!(
            defect,
            Defect::Port {
                does: "receives",
                ..
            }
        ),
        "{defect}"
    );
    assert_eq!(
        judge(&read(&both.replace(r#""ports":"one""#, r#""ports":"all""#))),
        Ok(())
    );
}

#[test]
fn rule_a_sender_holds_the_message_since_an_earlier_step() {
    let defect = broken(BROADCAST, |one| one.moves[2].step = 1);
    assert!(
        matches!(
            defect,
            Defect::NotHeld {
                number: 3,
                step: 1,
                ..
            }
        ),
        "{defect}"
    );
    // In a wormhole scatter no node passes on a message, so no message is named by its two ends.
    let relayed = read(&RELAYED.replace("store-forward", "wormhole"));
    assert!(matches!(judge(&relayed), Err(Defect::NoMessage { .. })));
}

#[test]
fn rule_nobody_gets_a_message_twice() {
    let defect = broken(BROADCAST, |one| {
        let mut again = one.moves[0].clone();
        again.step = 2;
        one.moves.push(again);
    });
    assert!(
        matches!(defect, Defect::Twice { number: 4, .. }),
        "{defect}"
    );
}

#[test]
fn rule_every_receiver_gets_everything() {
    let defect = broken(BROADCAST, |one| {
        one.moves.remove(1);
    });
    let message = Message::Of("0".to_owned());
    assert_eq!(
        defect,
        Defect::Missing {
            to: "3".to_owned(),
            message
        }
    );
    let defect = broken(RELAYED, |one| {
        one.moves.pop();
        one.steps = 2;
    });
    assert!(matches!(defect, Defect::Missing { .. }), "{defect}");
}

#[test]
fn the_last_step_there_can_be_is_refused_without_a_panic() {
    let defect = broken(BROADCAST, |schedule| {
        schedule.steps = u32::MAX;
        schedule.moves[2].step = u32::MAX;
    });
    assert_eq!(defect, Defect::EmptyStep(2));
}

#[test]
fn numbers_are_names_wherever_a_name_is() {
    let text = RELAYED.replace(r#"["0","2"]]"#, "[0,2]]");
    assert_ne!(text, RELAYED);
    assert_eq!(read(&text), read(RELAYED));
    let lists = |list: &str| {
        let lists = format!(r#""senders":{list},"receivers":{list},"moves""#);
        read(&BROADCAST.replace("\"moves\"", &lists))
    };
    assert_eq!(lists("[0,1]"), lists(r#"["0","1"]"#));
}

#[test]
fn a_source_may_be_absent_and_a_defect_names_the_message() {
    let text = r#"{"graph":"ring:4","collective":"aab","faults":[],"model":"wormhole","ports":"all",
        "excess":0,"blocks":1,"steps":1,"moves":[[1,"0","1",["0","1"],"0"]]}"#;
    let defect = judge(&read(text)).unwrap_err();
    assert!(
        defect.to_string().contains(" never gets message of "),
        "{defect}"
    );
}
