//! Collective operations during a network partition: real processes on two hosts.

use std::time::Duration;

use binomesh::client::{CollectiveAnswer, CollectiveRequest};
use tokio::task::JoinSet;

use crate::bed::{self, Lone};
use crate::cuts::Members;

/// The numbers of nodes on the two hosts.
const NEAR: usize = 9;
const FAR: usize = 8;

fn barrier<'a>(name: &str, members: impl Iterator<Item = &'a Lone>) -> CollectiveRequest {
    let names: Vec<&str> = members.map(|node| &*node.config.name).collect();
    CollectiveRequest {
        verb: "barrier".to_owned(),
        name: name.to_owned(),
        generation: 1,
        members: Some(names.join(",")),
        time: Some(Duration::from_secs(10)),
        ..CollectiveRequest::default()
    }
}

/// Calls the operation at all nodes at once; returns their answers in the order of `nodes`.
async fn called(nodes: &[Lone], request: &CollectiveRequest) -> Vec<CollectiveAnswer> {
    let mut calls = JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        let (client, request) = (node.client(), request.clone());
        calls.spawn(async move { (number, client.collective(&request, Vec::new()).await) });
    }
    let mut answers = calls.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    let answers = answers.into_iter();
    answers
        .map(|(_, answer)| answer.expect("an answer"))
        .collect()
}

fn missing(answer: &CollectiveAnswer) -> Vec<String> {
    let mut names: Vec<String> = answer.missing.iter().map(|one| one.name.clone()).collect();
    names.sort_unstable();
    names
}

/// The calls begin right after the cut, before any node has noticed the cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nine_of_16_decide_and_the_seven_learn_it_later_but_neither_of_two_halves_decides() {
    let _turn = bed::turn().await;
    let names: Vec<String> = (0..NEAR + FAR)
        .map(|number| format!("n{number:02}"))
        .collect();
    let places = names.iter().enumerate().map(|(number, name)| {
        let parent = number.checked_sub(1).map(|before| before / 2);
        (name.as_str(), usize::from(number >= NEAR), parent)
    });
    let members = Members::formed(&places.collect::<Vec<_>>()).await;
    let (near, far) = members.nodes.split_at(NEAR);
    // `uneven` leaves out one node of the far side, and `even` one node of the near side.
    let (nine, seven) = (near, &far[1..]);
    let uneven = barrier("uneven", nine.iter().chain(seven));
    let even = barrier("even", near[1..].iter().chain(far));
    members.cut().await;
    let (of_nine, of_seven, of_near, of_far) = tokio::join!(
        called(nine, &uneven),
        called(seven, &uneven),
        called(&near[1..], &even),
        called(far, &even),
    );
    for answer in &of_nine {
        assert!(answer.agreed, "{answer:?}");
        assert_eq!(missing(answer), names[NEAR + 1..], "{answer:?}");
    }
    for answer in of_seven.iter().chain(&of_near).chain(&of_far) {
        assert!(!answer.agreed, "{answer:?}");
    }
    members.mend().await;
    for answer in called(seven, &uneven).await {
        assert!(answer.agreed, "{answer:?}");
        assert_eq!(missing(&answer), missing(&of_nine[0]));
    }
    let next = CollectiveRequest {
        generation: 2,
        ..even
    };
    for answer in called(&members.nodes[1..], &next).await {
        assert!(answer.agreed && answer.missing.is_empty(), "{answer:?}");
    }
}
