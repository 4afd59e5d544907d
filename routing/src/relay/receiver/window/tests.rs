//! The windows of origins: novelty, marks, boots, and the origins and intervals that give way.

use super::*;

fn id(boot: u64, sequence: u64) -> PacketId<u32> {
    PacketId {
        origin: 7,
        boot,
        sequence,
    }
}

fn said(closed_below: u64, source: Source) -> Claim {
    Claim {
        closed_below,
        is_kept: false,
        source,
    }
}

fn hearsay(closed_below: u64) -> Claim {
    said(closed_below, Source::Hearsay)
}

#[test]
fn a_kept_message_is_taken_below_the_mark_once_unless_its_place_is_forgotten() {
    let config = Config {
        window: 4,
        ..Config::default()
    };
    let mut windows = Windows::new();
    let kept = Claim {
        is_kept: true,
        ..hearsay(0)
    };
    let judge = |windows: &mut Windows<u32>, id, said| {
        let verdict = windows.judge(id, 1, said, &config, |_| false);
        verdict.0
    };
    assert_eq!(judge(&mut windows, id(1, 900), hearsay(900)), Novelty::New);
    windows.deliver(id(1, 900), 1, &config);
    assert_eq!(judge(&mut windows, id(1, 3), hearsay(0)), Novelty::Outside);
    assert_eq!(judge(&mut windows, id(1, 3), kept), Novelty::New);
    windows.deliver(id(1, 3), 1, &config);
    assert_eq!(judge(&mut windows, id(1, 3), kept), Novelty::Delivered);
    // The kept message did not move the mark back, and the upper end of the window still
    // counts.
    assert_eq!(judge(&mut windows, id(1, 4), hearsay(0)), Novelty::Outside);
    assert_eq!(judge(&mut windows, id(1, 904), kept), Novelty::Outside);
    assert_eq!(judge(&mut windows, id(0, 3), kept), Novelty::Outside);
    // Further deliveries apart from each other, so many that 3 is forgotten.
    for sequence in [902, 904, 906] {
        windows.deliver(id(1, sequence), 1, &config);
    }
    assert_eq!(judge(&mut windows, id(1, 3), kept), Novelty::Outside);
    assert_eq!(judge(&mut windows, id(1, 4), kept), Novelty::New);
}

#[test]
fn a_message_is_delivered_once_within_the_window_and_never_below_the_mark() {
    let config = Config {
        window: 4,
        ..Config::default()
    };
    let mut windows = Windows::new();
    let judge = |windows: &mut Windows<u32>, id, closed| {
        windows.judge(id, 1, hearsay(closed), &config, |_| false).0
    };
    assert_eq!(judge(&mut windows, id(1, 0), 0), Novelty::New);
    windows.deliver(id(1, 0), 1, &config);
    assert_eq!(judge(&mut windows, id(1, 0), 0), Novelty::Delivered);
    assert_eq!(judge(&mut windows, id(1, 4), 0), Novelty::Outside);
    assert_eq!(judge(&mut windows, id(1, 4), 1), Novelty::New);
    assert_eq!(judge(&mut windows, id(1, 0), 0), Novelty::Outside);
    // A mark above its own packet is a contradiction and moves nothing.
    assert_eq!(judge(&mut windows, id(1, 3), 900), Novelty::New);
    // A new boot begins with a new window; the old one is over.
    assert_eq!(judge(&mut windows, id(2, 0), 0), Novelty::New);
    assert_eq!(judge(&mut windows, id(1, 4), 1), Novelty::Outside);
}

#[test]
fn origins_with_many_gaps_are_bounded_together_and_a_newcomer_is_delivered_to() {
    let config = Config::default();
    let mut windows = Windows::new();
    let deliver = |windows: &mut Windows<u32>, origin: u32, sequence: u64| {
        let id = PacketId {
            origin,
            boot: 1,
            sequence,
        };
        let (verdict, _) = windows.judge(id, 1, hearsay(sequence), &config, |_| false);
        assert_eq!(verdict, Novelty::New);
        let (known, crowded_out) = windows.deliver(id, 1, &config);
        assert_eq!(known, [0u64; 0]);
        crowded_out
    };
    let count = |windows: &Windows<u32>| {
        let lengths = windows.windows.values().map(|one| one.delivered.len());
        assert_eq!(windows.intervals, lengths.sum::<usize>());
        windows.intervals
    };
    // Each of these origins sends every other message to others.
    let many = Windows::<u32>::MAX_INTERVALS as u64 / config.window;
    for origin in 0..many as u32 {
        for sequence in (0..2 * config.window).step_by(2) {
            assert_eq!(deliver(&mut windows, origin, sequence), 0);
        }
    }
    assert_eq!(deliver(&mut windows, many as u32, 0), 0);
    let full = Windows::<u32>::MAX_INTERVALS + 1;
    assert_eq!(count(&windows), full);
    let share = Windows::<u32>::SHARE;
    let crowded_out = deliver(&mut windows, 0, 2 * config.window);
    assert_eq!(crowded_out, config.window as usize - share);
    assert_eq!(count(&windows), full - config.window as usize + share);
    let (last, first) = (2 * config.window, 2 * config.window - 2 * share as u64);
    let has = |sequence| {
        windows.has_delivered(PacketId {
            origin: 0,
            boot: 1,
            sequence,
        })
    };
    assert!(has(last) && has(first + 2) && !has(first));
}

#[test]
fn only_a_dispensable_origin_gives_way() {
    let config = Config {
        max_origins: 2,
        ..Config::default()
    };
    let mut windows = Windows::new();
    let of = |origin| PacketId {
        origin,
        boot: 1,
        sequence: 0,
    };
    let judge = |windows: &mut Windows<u32>, origin, may_go: u32| {
        let id = of(origin);
        let verdict = windows.judge(id, 1, hearsay(0), &config, |o| o == may_go);
        verdict.0
    };
    for origin in [1u32, 2] {
        assert_eq!(judge(&mut windows, origin, 0), Novelty::New);
        windows.deliver(of(origin), 1, &config);
    }
    assert_eq!(judge(&mut windows, 3, 0), Novelty::Full);
    assert_eq!(judge(&mut windows, 3, 1), Novelty::New);
    assert_eq!(judge(&mut windows, 2, 0), Novelty::Delivered);
}

#[test]
fn the_origins_own_word_takes_hearsay_back() {
    let config = Config {
        window: 4,
        ..Config::default()
    };
    let mut windows = Windows::new();
    let mut judge =
        |id, closed, source| windows.judge(id, 1, said(closed, source), &config, |_| false);
    assert_eq!(judge(id(5, 9), 9, Source::Hearsay), (Novelty::New, false));
    for (boot, sequence) in [(5, u64::MAX), (u64::MAX, u64::MAX)] {
        judge(id(boot, sequence), sequence, Source::Hearsay);
        let honest = judge(id(5, 10), 9, Source::Hearsay);
        assert_eq!(honest, (Novelty::Outside, false));
        assert_eq!(judge(id(5, 10), 9, Source::Origin), (Novelty::New, true));
        assert_eq!(judge(id(5, 11), 9, Source::Hearsay), (Novelty::New, false));
    }
    // The origin's own word is never taken back, by itself or by other nodes.
    assert_eq!(judge(id(5, 14), 14, Source::Origin), (Novelty::New, false));
    assert_eq!(
        judge(id(5, 11), 9, Source::Origin),
        (Novelty::Outside, false)
    );
    assert_eq!(
        judge(id(5, 11), 9, Source::Hearsay),
        (Novelty::Outside, false)
    );
}

#[test]
fn the_linked_life_of_an_origin_counts_although_another_had_a_greater_boot() {
    let config = Config::default();
    let mut windows = Windows::new();
    let judge = |windows: &mut Windows<u32>, id, source| {
        let (verdict, _) = windows.judge(id, 1, said(0, source), &config, |_| false);
        verdict
    };
    for (ahead, source) in [(9, Source::Origin), (u64::MAX, Source::Hearsay)] {
        assert_eq!(judge(&mut windows, id(ahead, 3), source), Novelty::New);
        windows.deliver(id(ahead, 3), 1, &config);
        let locked = judge(&mut windows, id(5, 0), Source::Hearsay);
        assert_eq!(locked, Novelty::Outside, "{ahead}");
        windows.meet(7, 5);
        assert_eq!(judge(&mut windows, id(5, 0), Source::Hearsay), Novelty::New);
        // A message of the life with the greater boot is not delivered again.
        let again = judge(&mut windows, id(ahead, 3), Source::Hearsay);
        assert_eq!(again, Novelty::Delivered);
        windows.meet(7, 5);
    }
    windows.meet(8, 5);
    windows.meet(7, 6);
    assert_eq!(judge(&mut windows, id(6, 0), Source::Hearsay), Novelty::New);
}

/// No link to the origin was reported to this relay.
#[test]
fn the_origins_current_life_counts_although_a_life_with_a_greater_boot_spoke_before() {
    let config = Config::default();
    let mut windows = Windows::new();
    let mut judge = |id, mark, source| {
        let (verdict, _) = windows.judge(id, 1, said(mark, source), &config, |_| false);
        verdict
    };
    assert_eq!(judge(id(9, 3), 3, Source::Origin), Novelty::New);
    assert_eq!(judge(id(5, 0), 0, Source::Hearsay), Novelty::Outside);
    assert_eq!(judge(id(5, 0), 0, Source::Origin), Novelty::New);
    assert_eq!(judge(id(5, 1), 0, Source::Hearsay), Novelty::New);
}

#[test]
fn deliveries_are_remembered_below_the_mark() {
    let config = Config::default();
    let mut windows = Windows::new();
    let judge = |windows: &mut Windows<u32>, id, closed, source| {
        windows
            .judge(id, 1, said(closed, source), &config, |_| false)
            .0
    };
    judge(&mut windows, id(5, 3), 0, Source::Hearsay);
    windows.deliver(id(5, 3), 1, &config);
    judge(&mut windows, id(6, 900), 900, Source::Hearsay);
    let again = judge(&mut windows, id(5, 3), 0, Source::Origin);
    assert_eq!(again, Novelty::Delivered);
}
