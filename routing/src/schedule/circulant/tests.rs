use super::*;

fn circulant(nodes: u32) -> Circulant {
    Circulant::new(NonZeroU32::new(nodes).unwrap())
}

/// Whether all links of the pattern are links r ± 2^i of the binomial graph of the same size.
fn is_binomial(pattern: &Circulant) -> bool {
    let links = binomial::ascending(pattern.nodes());
    let is_link = |skip: &u32| links.contains(skip) || links.contains(&(pattern.nodes() - skip));
    pattern.skips().iter().all(is_link)
}

/// Carry out a broadcast. All nodes must agree in every round, send only blocks that they have,
/// receive each block once, and have all at the end.
fn carry_out(pattern: &Circulant, blocks: u32) {
    let nodes = pattern.nodes();
    let what = format!("{nodes} nodes, {blocks} blocks");
    let tables = (0..nodes).map(|rank| pattern.timetable(rank).unwrap());
    let tables: Vec<Timetable> = tables.collect();
    let mut has = vec![vec![false; blocks as usize]; nodes as usize];
    has[0].fill(true);
    for number in 0..pattern.rounds(blocks) {
        let of = |rank: usize| tables[rank].round(number, blocks);
        let rounds: Vec<Round> = (0..nodes as usize).map(of).collect();
        let mut received = Vec::new();
        for (rank, round) in (0..).zip(&rounds) {
            if let Some((to, block)) = round.send {
                assert!(
                    has[rank as usize][block as usize],
                    "{what}: {rank} sends {block}"
                );
                let expected = rounds[to as usize].receive;
                assert_eq!(
                    expected,
                    Some((rank, block)),
                    "{what}: round {number}, {to}"
                );
            }
            if let Some((from, block)) = round.receive {
                let sent = rounds[from as usize].send;
                assert_eq!(sent, Some((rank, block)), "{what}: round {number}, {from}");
                received.push((rank as usize, block as usize));
            }
        }
        for (rank, block) in received {
            assert!(!has[rank][block], "{what}: {rank} gets {block} twice");
            has[rank][block] = true;
        }
    }
    assert!(has.iter().flatten().all(|has| *has), "{what}: incomplete");
    let after = tables
        .iter()
        .map(|table| table.round(pattern.rounds(blocks), blocks));
    assert!(
        after.into_iter().all(|round| round == Round::default()),
        "{what}"
    );
}

#[test]
fn five_nodes_get_three_blocks_as_on_paper() {
    let pattern = circulant(5);
    assert_eq!(pattern.skips(), [1, 2, 3]);
    assert_eq!(pattern.rounds(3), 5);
    let table = pattern.timetable(0).unwrap();
    let sent = (0..5).map(|round| table.round(round, 3).send.unwrap());
    let sent: Vec<(u32, u32)> = sent.collect();
    // Block 2 is the last one, and every round of the last phase repeats it.
    assert_eq!(sent, [(2, 0), (3, 1), (1, 2), (2, 2), (3, 2)]);
}

#[test]
fn all_nodes_agree_and_are_done_after_the_least_number_of_rounds() {
    for nodes in 1..=1100 {
        let pattern = circulant(nodes);
        let phase = pattern.skips().len() as u32;
        assert_eq!(phase, nodes.next_power_of_two().trailing_zeros());
        for blocks in [1, phase + 1, 2 * phase + 3] {
            let least = match nodes {
                1 => 0,
                _ => u64::from(blocks) - 1 + u64::from(phase),
            };
            assert_eq!(pattern.rounds(blocks), least);
            carry_out(&pattern, blocks);
        }
    }
}

#[test]
fn every_number_of_blocks_is_carried_out() {
    for nodes in 2..=40 {
        for blocks in 1..=40 {
            carry_out(&circulant(nodes), blocks);
        }
    }
}

#[test]
fn each_node_receives_each_residue_once_per_phase() {
    for nodes in 2..=1100 {
        let pattern = circulant(nodes);
        let phase = pattern.skips().len() as i64;
        for rank in 1..nodes {
            let mut residues = pattern.receive(rank);
            let base = residues.iter().filter(|block| **block >= 0);
            assert_eq!(base.count(), 1, "{nodes} nodes, rank {rank}");
            residues
                .iter_mut()
                .for_each(|block| *block = block.rem_euclid(phase));
            residues.sort_unstable();
            assert!(
                residues.into_iter().eq(0..phase),
                "{nodes} nodes, rank {rank}"
            );
        }
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let pattern = circulant(u32::MAX);
    assert_eq!(pattern.skips().len(), 32);
    let table = pattern.timetable(u32::MAX - 1).unwrap();
    let last = table.round(table.rounds(u32::MAX) - 1, u32::MAX);
    assert!(last.receive.is_some(), "{last:?}");
    assert_eq!(pattern.timetable(u32::MAX), None);
    assert_eq!(table.round(u64::MAX, 5), Round::default());
    assert_eq!(table.rounds(0), 0);
}

#[test]
fn every_binomial_graph_carries_a_schedule_of_as_few_rounds() {
    for nodes in (1..=160).chain((161..1024).step_by(61)).chain([1024]) {
        let number = NonZeroU32::new(nodes).unwrap();
        let pattern = Circulant::binomial(number).expect("a schedule");
        assert!(is_binomial(&pattern), "{nodes} nodes");
        let phase = pattern.skips().len() as u32;
        assert_eq!(phase, nodes.next_power_of_two().trailing_zeros());
        for blocks in [1, phase + 1, 2 * phase + 3] {
            carry_out(&pattern, blocks);
        }
    }
    assert_eq!(Circulant::binomial(NonZeroU32::new(1025).unwrap()), None);
}

#[test]
fn skips_by_halving_are_links_of_few_binomial_graphs() {
    let fits = |nodes: &u32| is_binomial(&circulant(*nodes));
    let small: Vec<u32> = (2..=64).filter(fits).collect();
    assert_eq!(small, [2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64]);
    let larger = (65..=1024).filter(fits);
    assert!(larger.eq([127, 128, 255, 256, 511, 512, 1023, 1024]));
}
