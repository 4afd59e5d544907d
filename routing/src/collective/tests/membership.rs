//! Members that were never there, members that are back, and messages that were lost.

use super::*;

#[test]
fn members_that_were_never_started_do_not_coordinate() {
    for size in [8, 20_000] {
        let mut net = Net::new(5, 1);
        for never in [0, 3] {
            net.members.remove(&never);
        }
        for id in [1, 2, 4] {
            net.feed(id, Input::Members(Arc::new([1, 2, 4].into())));
        }
        let terms = net.terms(1, Verb::AllGather);
        let calls = [1, 2, 4].map(|id| net.call(id, &terms, value(id, size), TIME));
        net.run(TIME);
        for call in calls {
            let outcome = net.outcome(call);
            assert!(outcome.agreed, "{size} bytes: {outcome:?}");
            assert_eq!(outcome.missing, [(0, Class::Late), (3, Class::Late)]);
        }
    }
}

#[test]
fn a_member_that_comes_into_the_epoch_is_told_who_has_come_and_coordinates() {
    let mut net = Net::new(3, 2);
    let all = Collectives::new(0, 1, Record::Kept(BTreeMap::new()), net.config);
    net.members.remove(&0);
    for id in [1, 2] {
        net.feed(id, Input::Members(Arc::new([1, 2].into())));
    }
    let terms = net.terms(1, Verb::Barrier);
    let mut calls = [1, 2]
        .map(|id| net.call(id, &terms, Bytes::new(), TIME))
        .to_vec();
    net.run(Duration::from_secs(2));
    net.members.insert(0, all);
    for id in 0..3 {
        net.feed(id, Input::Members(Arc::new([0, 1, 2].into())));
    }
    calls.push(net.call(0, &terms, Bytes::new(), TIME));
    net.run(Duration::from_secs(1));
    for call in calls {
        let outcome = net.outcome(call);
        assert!(outcome.agreed && outcome.missing.is_empty(), "{outcome:?}");
    }
}

#[test]
fn members_that_are_back_before_anybody_has_promised_are_waited_for() {
    let mut net = Net::new(3, 3);
    net.split(&[0, 1], &[2]);
    net.run(Duration::from_secs(3));
    let terms = net.terms(1, Verb::Barrier);
    let mut calls = vec![net.call(2, &terms, Bytes::new(), TIME)];
    net.run(Duration::from_secs(1));
    net.heal();
    net.run(Duration::from_secs(3));
    calls.extend([0, 1].map(|id| net.call(id, &terms, Bytes::new(), TIME)));
    net.run(Duration::from_secs(1));
    for call in calls {
        let outcome = net.outcome(call);
        assert!(outcome.agreed && outcome.missing.is_empty(), "{outcome:?}");
    }
}

#[test]
fn a_coordinator_that_was_started_again_closes_in_time() {
    let mut net = Net::new(4, 4);
    let terms = Terms {
        on_loss: OnLoss::Wait,
        ..net.terms(1, Verb::Barrier)
    };
    let calls = [1, 2, 3].map(|id| net.call(id, &terms, Bytes::new(), TIME));
    net.run(Duration::from_secs(2));
    net.kill(0);
    net.run(Duration::from_secs(2));
    net.restart(0);
    net.run(TIME);
    for call in calls {
        let outcome = net.outcome(call);
        assert!(outcome.agreed, "{outcome:?}");
        assert_eq!(outcome.missing, [(0, Class::Late)]);
    }
}

/// Members 1 to 3 decide an operation while its coordinator, 0, is down and 4 is cut off. The
/// coordinator starts again without any memory of the operation, and 4 tells it of its arrival.
/// Once the coordinator hears the outcome, it has to tell 4.
#[test]
fn a_coordinator_that_hears_the_outcome_from_others_tells_the_members_that_came() {
    let mut net = Net::new(5, 9);
    let terms = Terms {
        on_loss: OnLoss::Abort,
        ..net.terms(1, Verb::Barrier)
    };
    net.kill(0);
    net.run(Duration::from_secs(2));
    net.cut = (1..4).flat_map(|other| [(4, other), (other, 4)]).collect();
    let calls = [1, 2, 3, 4].map(|id| net.call(id, &terms, Bytes::new(), TIME));
    net.run(Duration::from_secs(2));
    assert!(!net.answers.contains_key(&calls[3]), "it cannot know");
    net.restart(0);
    net.run(Duration::from_secs(1));
    net.cut.clear();
    net.run(TIME);
    for call in calls {
        let outcome = net.outcome(call);
        assert_eq!(outcome.end, Some(End::Aborted), "{outcome:?}");
    }
}

/// The coordinator is back before anybody called it down, and a member that comes later tells it of
/// the operation.
#[test]
fn a_coordinator_that_was_started_again_unnoticed_hears_who_had_come_before() {
    let mut net = Net::new(4, 8);
    let terms = net.terms(1, Verb::Barrier);
    let call = |net: &mut Net, id| net.call(id, &terms, Bytes::new(), TIME);
    let mut calls = vec![call(&mut net, 1), call(&mut net, 2)];
    net.run(Duration::from_millis(1500));
    let boot = net.boots.get_mut(&0).unwrap();
    *boot += 1;
    let again = Collectives::new(0, *boot, Record::Kept(BTreeMap::new()), net.config);
    net.members.insert(0, again);
    calls.extend([3, 0].map(|id| call(&mut net, id)));
    net.run(Duration::from_secs(5));
    for call in calls {
        let outcome = net.outcome(call);
        assert!(outcome.agreed && outcome.missing.is_empty(), "{outcome:?}");
    }
}

/// Member 1 says that it holds the value of member 4, just before the coordinator names all that
/// have come. The message of member 1 is lost.
#[test]
fn a_member_repeats_that_it_holds_a_value() {
    let mut net = Net::new(5, 5);
    let terms = net.terms(1, Verb::AllGather);
    let call = |net: &mut Net, id| net.call(id, &terms, value(id, 20_000), TIME);
    let mut calls: Vec<_> = (0..4).map(|id| call(&mut net, id)).collect();
    net.run(Duration::from_millis(990));
    net.cut.insert((1, 0));
    calls.push(call(&mut net, 4));
    net.run(Duration::from_millis(500));
    net.cut.clear();
    net.run(Duration::from_secs(5));
    for call in calls {
        let outcome = net.outcome(call);
        assert!(outcome.agreed && outcome.missing.is_empty(), "{outcome:?}");
    }
}

/// A member has come, and no other member has its long value.
#[test]
fn a_value_that_is_lost_aborts_as_its_member_would() {
    let mut net = Net::new(5, 6);
    let terms = Terms {
        on_loss: OnLoss::Abort,
        ..net.terms(1, Verb::AllGather)
    };
    // The messages of member 3 arrive, but the pieces of its value do not.
    let mut calls = vec![net.call(3, &terms, value(3, 20_000), TIME)];
    net.run(MS * 6);
    net.kill(3);
    calls.extend([0, 1, 2].map(|id| net.call(id, &terms, value(id, 20_000), TIME)));
    net.run(Duration::from_secs(4));
    for call in &calls[1..] {
        let outcome = net.outcome(*call);
        assert_eq!(outcome.end, Some(End::Aborted), "{outcome:?}");
        assert!(outcome.missing.contains(&(3, Class::Lost)), "{outcome:?}");
    }
}

/// Only while the next coordinator asks for promises, it hears that enough members hold the root's
/// value.
#[test]
fn a_coordinator_that_hears_while_it_asks_that_nothing_is_lost_waits_on() {
    for seed in 0..20 {
        let mut net = Net::new(3, seed);
        let terms = Terms {
            on_loss: OnLoss::Abort,
            ..net.terms(1, Verb::Scatter { root: 2 })
        };
        let call = |net: &mut Net, id| net.call(id, &terms, value(id, 20_000), TIME);
        let caller = call(&mut net, 1);
        call(&mut net, 2);
        net.run(Duration::from_secs(2));
        net.members.remove(&2);
        for id in [0, 1] {
            net.feed(id, Input::Left(2));
        }
        net.run(Duration::from_secs(2));
        // If the promise came first, the root is lost.
        if let Some(Ok(outcome)) = net.answers.get(&caller) {
            assert_eq!(outcome.end, Some(End::RootLost), "{seed}: {outcome:?}");
            continue;
        }
        let late = call(&mut net, 0);
        net.run(Duration::from_secs(2));
        for call in [caller, late] {
            let outcome = net.outcome(call);
            assert!(
                outcome.agreed && outcome.missing.is_empty(),
                "{seed}: {outcome:?}"
            );
        }
    }
}
