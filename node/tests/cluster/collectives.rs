//! Collective operations among real processes.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binomesh::client::{Client, CollectiveAnswer, CollectiveRequest};
use binomesh::cluster::Cluster;
use tokio::task::JoinSet;

use crate::bed::{self, config, formed, stop};

type Answers = BTreeMap<String, CollectiveAnswer>;

fn request(verb: &str, generation: u64) -> CollectiveRequest {
    CollectiveRequest {
        verb: verb.to_owned(),
        name: "job".to_owned(),
        generation,
        time: Some(Duration::from_secs(10)),
        ..CollectiveRequest::default()
    }
}

fn node(number: u32) -> String {
    format!("node-{number}")
}

/// The list that all callers give.
fn members(nodes: u32) -> Option<String> {
    Some(format!("node-[0-{}]", nodes - 1))
}

/// The value that a member brings.
fn value(number: u32, size: usize) -> Vec<u8> {
    let step = number.wrapping_mul(2_654_435_761);
    (0..size as u32)
        .map(|i| (i.wrapping_add(step).wrapping_mul(2_246_822_519) >> 24) as u8)
        .collect()
}

/// Calls that are under way, by the member's name.
struct Calls(JoinSet<(String, Result<CollectiveAnswer, String>)>);

impl Calls {
    fn new() -> Self {
        Self(JoinSet::new())
    }

    fn call(&mut self, name: String, client: Client, request: &CollectiveRequest, value: Vec<u8>) {
        let request = request.clone();
        self.0.spawn(async move {
            let answer = client.collective(&request, value).await;
            (name, answer.map_err(|error| error.to_string()))
        });
    }

    /// All answers. A killed member has none.
    async fn answers(mut self) -> Answers {
        let mut answers = BTreeMap::new();
        while let Some(ended) = self.0.join_next().await {
            let (name, answer) = ended.expect("no panic");
            match answer {
                Ok(answer) => _ = answers.insert(name, answer),
                Err(error) => println!("{name}: {error}"),
            }
        }
        answers
    }
}

/// The members `numbers` call, each with the value that `given` makes.
fn calling(
    cluster: &Cluster,
    numbers: impl IntoIterator<Item = u32>,
    request: &CollectiveRequest,
    given: impl Fn(u32) -> Vec<u8>,
) -> Calls {
    let mut calls = Calls::new();
    for number in numbers {
        let client = bed::member(cluster, &node(number)).client();
        calls.call(node(number), client, request, given(number));
    }
    calls
}

/// The numbers of the members that run.
fn running(cluster: &Cluster) -> Vec<u32> {
    let live = cluster
        .live()
        .filter_map(|member| member.name[5..].parse().ok());
    let mut numbers: Vec<u32> = live.collect();
    numbers.sort_unstable();
    numbers
}

#[track_caller]
fn assert_all(answers: &Answers, nodes: u32, what: &str) {
    assert_eq!(answers.len(), nodes as usize, "{what}");
    for (name, answer) in answers {
        let all = answer.agreed && answer.missing.is_empty();
        assert!(all, "{what}, {name}: {:?}", answer.missing);
    }
}

#[track_caller]
fn assert_values(answer: &CollectiveAnswer, expected: &[(u32, Vec<u8>)], what: &str) {
    let values: Vec<(String, Vec<u8>)> = answer
        .values
        .iter()
        .map(|value| (value.name.clone(), value.bytes()))
        .collect();
    let mut expected: Vec<(String, Vec<u8>)> = expected
        .iter()
        .map(|(number, value)| (node(*number), value.clone()))
        .collect();
    // A host list is in the order of names.
    expected.sort();
    assert!(values == expected, "{what}: other values");
}

/// Every verb gives, byte for byte, the result that the test computes.
async fn verbs(nodes: u32, sizes: &[usize], generation: &mut u64) {
    let _turn = bed::turn().await;
    let cluster = formed(config(nodes)).await;
    for &size in sizes {
        for verb in [
            "barrier",
            "agree",
            "gather",
            "all-gather",
            "reduce",
            "all-reduce",
            "scatter",
            "all-to-all",
        ] {
            // With these verbs every member gets all values, or a caller gives a value for each
            // member, so large values are left out.
            let is_many = matches!(verb, "all-gather" | "all-to-all" | "scatter");
            if is_many && size > 64 << 10 {
                continue;
            }
            *generation += 1;
            verb_gives_what_a_reference_computes(&cluster, nodes, verb, size, *generation).await;
        }
    }
    stop(cluster).await;
}

async fn verb_gives_what_a_reference_computes(
    cluster: &Cluster,
    nodes: u32,
    verb: &str,
    size: usize,
    generation: u64,
) {
    let what = format!("{verb} of {size} bytes among {nodes}");
    let root = nodes / 2;
    let mut asked = request(verb, generation);
    asked.members = members(nodes);
    // An operation moves up to 43 MB among 33 processes, and more among 16, possibly on two busy
    // processors.
    asked.time = Some(Duration::from_secs(240));
    if matches!(verb, "gather" | "reduce" | "scatter") {
        asked.root = Some(node(root));
    }
    if verb.ends_with("reduce") {
        asked.op = Some("xor:u64".to_owned());
    }
    let has_parts = matches!(verb, "scatter" | "all-to-all");
    let given = |number: u32| match (verb, has_parts) {
        ("barrier", _) => Vec::new(),
        ("scatter", _) if number != root => Vec::new(),
        (_, false) => value(number, size),
        (_, true) => {
            let part = |to: u32| STANDARD.encode(value(number * 1000 + to, size));
            let parts: BTreeMap<String, String> =
                (0..nodes).map(|to| (node(to), part(to))).collect();
            serde_json::to_vec(&parts).unwrap()
        }
    };
    let answers = calling(cluster, 0..nodes, &asked, given).answers().await;
    assert_all(&answers, nodes, &what);
    let all: Vec<(u32, Vec<u8>)> = (0..nodes).map(|of| (of, value(of, size))).collect();
    let combined: Vec<u8> = (0..size)
        .map(|i| all.iter().fold(0, |sum, (_, value)| sum ^ value[i]))
        .collect();
    for number in 0..nodes {
        let answer = &answers[&node(number)];
        let part = |of: u32| (of, value(of * 1000 + number, size));
        let (expected, result) = match verb {
            "agree" => (vec![all[0].clone()], None),
            "all-gather" => (all.clone(), None),
            "gather" if number == root => (all.clone(), None),
            "reduce" if number == root => (vec![], Some(&combined)),
            "all-reduce" => (vec![], Some(&combined)),
            "scatter" => (vec![part(root)], None),
            "all-to-all" => ((0..nodes).map(part).collect(), None),
            _ => (vec![], None),
        };
        assert_values(answer, &expected, &what);
        assert!(answer.result().as_ref() == result, "{what}: another result");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_gives_16_members_what_a_reference_computes() {
    verbs(16, &[0, 8, 65_536, 4 << 20], &mut 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_gives_33_members_what_a_reference_computes() {
    verbs(33, &[8, 40_000], &mut 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_killed_midway_are_missing_and_the_others_agree() {
    let _turn = bed::turn().await;
    let nodes = 16;
    let cluster = formed(config(nodes)).await;
    // One member is killed, then three more. The operation's root is among them each time, and the
    // last caller comes after the kill.
    for (generation, dead) in [(1, vec![3]), (2, vec![0, 7, 12])] {
        let all: Vec<u32> = running(&cluster);
        let (last, first) = all.split_last().unwrap();
        let mut asked = request("gather", generation);
        asked.members = members(nodes);
        asked.root = Some(node(dead[0]));
        let mut calls = calling(&cluster, first.iter().copied(), &asked, |n| value(n, 5000));
        for victim in &dead {
            cluster.kill(&node(*victim)).await.expect("killed");
        }
        let client = bed::member(&cluster, &node(*last)).client();
        calls.call(node(*last), client, &asked, value(*last, 5000));
        let answers = calls.answers().await;
        let survivors = all.iter().filter(|number| !dead.contains(number));
        let first = answers.values().find(|answer| answer.agreed).unwrap();
        for number in survivors {
            let answer = &answers[&node(*number)];
            assert!(answer.agreed, "{number}: {answer:?}");
            assert_eq!((&answer.missing, &answer.end), (&first.missing, &first.end));
        }
        let rest = all.iter().copied().filter(|number| !dead.contains(number));
        let mut next = request("barrier", 100 + generation);
        next.members = members(nodes);
        let answers = calling(&cluster, rest.clone(), &next, |_| Vec::new());
        let answers = answers.answers().await;
        let gone: Vec<String> = (0..nodes)
            .filter(|number| !rest.clone().any(|other| other == *number))
            .map(node)
            .collect();
        for number in rest {
            let answer = &answers[&node(number)];
            let mut missing: Vec<String> =
                answer.missing.iter().map(|one| one.name.clone()).collect();
            missing.sort_by_key(|name| name[5..].parse::<u32>().unwrap());
            assert!(answer.agreed, "{number}: {answer:?}");
            assert_eq!(missing, gone);
            assert!(answer.missing.iter().all(|one| one.state == "dead"));
        }
    }
    stop(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_nine_of_16_killed_nothing_is_agreed_by_the_deadline() {
    let _turn = bed::turn().await;
    let cluster = formed(config(16)).await;
    for victim in 2..11 {
        cluster.kill(&node(victim)).await.expect("killed");
    }
    let mut asked = request("barrier", 1);
    asked.members = members(16);
    asked.time = Some(Duration::from_secs(6));
    let rest = [0, 1, 11, 12, 13, 14, 15];
    let answers = calling(&cluster, rest, &asked, |_| Vec::new());
    let answers = answers.answers().await;
    assert_eq!(answers.len(), rest.len());
    for (name, answer) in answers {
        assert!(!answer.agreed, "{name}: {answer:?}");
        assert_eq!(answer.end, None);
    }
    stop(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_members_are_named_alone_in_five_generations_back_to_back() {
    let _turn = bed::turn().await;
    let nodes = 16;
    let cluster = formed(config(nodes)).await;
    for generation in 1..=5 {
        let late = (generation as u32 * 5) % nodes;
        let mut asked = request("all-gather", generation);
        asked.members = members(nodes);
        // A tenth of it is left for the vote.
        asked.time = Some(Duration::from_secs(4));
        let there = (0..nodes).filter(|number| *number != late);
        let calls = calling(&cluster, there, &asked, |n| value(n, 100));
        let mut answers = calls.answers().await;
        // The late member learns the decision of the others.
        let calls = calling(&cluster, [late], &asked, |n| value(n, 100));
        answers.extend(calls.answers().await);
        assert_eq!(answers.len(), nodes as usize);
        for (name, answer) in &answers {
            let missing: Vec<(&str, &str)> = answer
                .missing
                .iter()
                .map(|one| (one.name.as_str(), one.state.as_str()))
                .collect();
            assert!(answer.agreed, "{name}: {answer:?}");
            assert_eq!(missing, [(node(late).as_str(), "late")], "{name}");
            assert_eq!(answer.values.len(), nodes as usize - 1);
        }
    }
    stop(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_names_the_missing_members_while_its_caller_waits() {
    let _turn = bed::turn().await;
    let cluster = formed(config(4)).await;
    let asked = CollectiveRequest {
        members: members(4),
        ..request("barrier", 1)
    };
    let calls = calling(&cluster, [1, 2, 3], &asked, |_| Vec::new());
    let client = bed::member(&cluster, "node-2").client();
    bed::eventually("the late one is named", async || {
        let views = client.collectives().await.ok()?;
        let view = views.first()?;
        let names: Vec<&str> = view.missing.iter().map(|one| one.name.as_str()).collect();
        (view.state == "open" && names == ["node-0"]).then_some(())
    })
    .await;
    // After its caller has gone, no caller waits at the node. The member counts as arrived all the
    // same.
    drop(calls);
    bed::eventually("nobody waits", async || {
        let views = client.collectives().await.ok()?;
        (views.first()?.callers_count == 0).then_some(())
    })
    .await;
    let answers = calling(&cluster, 0..4, &asked, |_| Vec::new())
        .answers()
        .await;
    assert_all(&answers, 4, "all have come");
    stop(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_started_again_takes_part() {
    let _turn = bed::turn().await;
    let mut cluster = formed(config(5)).await;
    let asked = |generation| CollectiveRequest {
        members: members(5),
        ..request("barrier", generation)
    };
    let answers = calling(&cluster, 0..5, &asked(1), |_| Vec::new());
    assert_all(&answers.answers().await, 5, "before");
    cluster.kill("node-3").await.expect("killed");
    cluster
        .restart("node-3", "node-0")
        .await
        .expect("started again");
    bed::verified(&cluster).await;
    let answers = calling(&cluster, 0..5, &asked(2), |_| Vec::new());
    assert_all(&answers.answers().await, 5, "after");
    stop(cluster).await;
}
