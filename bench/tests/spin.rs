//! The PROMELA models of `bench/spin` match the shipped machines. On the same seeded schedules,
//! model and machine are in the same state after every step. From the same starts, both have
//! the same number of states. The tests need SPIN (Debian's package `spin`), and say so if it
//! is not installed.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use binomesh_bench::checker::channels::{Carriage, Channels, Letter};
use binomesh_bench::checker::finger::FingersOn;
use binomesh_bench::checker::model::{Garbage, StateOf, Step, World};
use binomesh_bench::checker::ring::RingOn;
use binomesh_bench::checker::search::search;
use binomesh_bench::checker::{Peer, Protocol};
use binomesh_overlay::fingers::{self, Rules};
use binomesh_overlay::{Planted, ring};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stateright::Model;

const SEEDS: u64 = 60;
const STEPS: usize = 60;

/// A protocol, and the notation of its model.
trait PromelaModel: Protocol {
    /// The model and its parameters.
    fn model(&self) -> (&'static str, Vec<String>);
    /// The steps that bring the empty model into this state.
    fn starting(&self, state: &StateOf<Self>) -> String;
    /// The rule that receives this letter; empty if the model has no such letter.
    fn receiving(&self, letter: &Letter<Self::Message>) -> String;
    /// The state as the model prints it.
    fn line(&self, state: &StateOf<Self>) -> String;
}

/// The number of a peer in a model. 0 means no peer.
fn number(peer: Option<Peer>) -> usize {
    peer.map_or(0, |peer| peer.index() + 1)
}

impl PromelaModel for RingOn {
    fn model(&self) -> (&'static str, Vec<String>) {
        let told = self.describe();
        let parents = told.split_whitespace().skip(2).enumerate();
        let mut parameters = vec![format!("-DN={}", self.members())];
        parameters.extend(parents.map(|(child, parent)| format!("-DP{}={parent}", child + 1)));
        ("ring.pml", parameters)
    }

    fn starting(&self, state: &StateOf<Self>) -> String {
        let mut text = String::new();
        for (me, node) in state.nodes.iter().enumerate() {
            let ring = node.machine;
            let (before, after) = (number(ring.predecessor), number(ring.successor));
            let _ = write!(text, "p{me}{before}s{me}{after}");
        }
        for letter in state.channels.letters() {
            text += &match letter.message {
                ring::Message::Info(leaf) | ring::Message::AskConnect(leaf) => {
                    let place = self.receiving(letter).to_lowercase();
                    format!("{place}{}", number(Some(leaf)))
                }
                _ => self.receiving(letter).to_lowercase(),
            };
        }
        text
    }

    fn receiving(&self, letter: &Letter<Self::Message>) -> String {
        let rule = match letter.message {
            ring::Message::FConnect => 'F',
            ring::Message::Info(_) => 'I',
            ring::Message::AskConnect(_) => 'A',
            ring::Message::BConnect => 'B',
        };
        format!("{rule}{}{}", letter.to.index(), letter.from.index())
    }

    fn line(&self, state: &StateOf<Self>) -> String {
        let n = self.members();
        let mut tables = Vec::new();
        for node in &state.nodes {
            let ring = node.machine;
            tables.extend([number(ring.predecessor), number(ring.successor)]);
        }
        let (mut masks, mut leaves) = (vec![0; 2 * n], vec![0; 2 * n * n]);
        for letter in state.channels.letters() {
            let (to, from) = (letter.to.index(), letter.from.index());
            match letter.message {
                ring::Message::FConnect => masks[2 * to] |= 1 << from,
                ring::Message::BConnect => masks[2 * to + 1] |= 1 << from,
                ring::Message::Info(leaf) => leaves[2 * (to * n + from)] = number(Some(leaf)),
                ring::Message::AskConnect(leaf) => {
                    leaves[2 * (to * n + from) + 1] = number(Some(leaf));
                }
            }
        }
        words(&[tables, masks, leaves].concat())
    }
}

impl PromelaModel for FingersOn {
    fn model(&self) -> (&'static str, Vec<String>) {
        ("bmg.pml", vec![format!("-DN={}", self.members())])
    }

    fn starting(&self, state: &StateOf<Self>) -> String {
        let mut text = String::new();
        for (me, node) in state.nodes.iter().enumerate() {
            let tables = [node.machine.clockwise(), node.machine.counterclockwise()];
            for (rule, table) in ["c", "k"].into_iter().zip(tables) {
                for (level, finger) in table.iter().enumerate() {
                    let _ = write!(text, "{rule}{level}{me}{}", number(*finger));
                }
            }
        }
        for letter in state.channels.letters() {
            let place = self.receiving(letter).to_lowercase();
            if let (false, Some((_, _, subject))) = (place.is_empty(), introduced(letter)) {
                let _ = write!(text, "{place}{}", number(Some(subject)));
            }
        }
        text
    }

    fn receiving(&self, letter: &Letter<Self::Message>) -> String {
        let (to, from) = (letter.to.index(), letter.from.index());
        match introduced(letter) {
            Some((kind, level, _)) if (1..levels(self)).contains(&level) => {
                format!("{}{level}{to}{from}", ["U", "D"][kind])
            }
            _ => String::new(),
        }
    }

    fn line(&self, state: &StateOf<Self>) -> String {
        let n = self.members();
        let mut tables = Vec::new();
        for level in 0..levels(self) {
            for node in &state.nodes {
                let finger = |table: &[Option<Peer>]| number(table.get(level).copied().flatten());
                let machine = &node.machine;
                tables.extend([machine.clockwise(), machine.counterclockwise()].map(finger));
            }
        }
        let mut slots = vec![0; 2 * (levels(self) - 1) * n * n];
        for letter in state.channels.letters() {
            if let Some((kind, level, subject)) = introduced(letter)
                && (1..levels(self)).contains(&level)
            {
                let place = ((level - 1) * n + letter.to.index()) * n + letter.from.index();
                slots[2 * place + kind] = number(Some(subject));
            }
        }
        words(&[tables, slots].concat())
    }
}

/// The kind (0 for UP, 1 for DN), the level and the subject of an introduction.
fn introduced(letter: &Letter<fingers::Message<Peer, ()>>) -> Option<(usize, usize, Peer)> {
    match letter.message {
        fingers::Message::Up { level, subject, .. } => Some((0, level.into(), subject)),
        fingers::Message::Down { level, subject, .. } => Some((1, level.into(), subject)),
        _ => None,
    }
}

/// The number of levels: 2^level < N.
fn levels(ring: &FingersOn) -> usize {
    (0..8)
        .take_while(|level| 1 << level < ring.members())
        .count()
}

fn words(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    words.join(" ")
}

/// A seeded world that starts in any state and takes any steps. Returns the script for the
/// model, and the states that the model should print.
fn walk<P: PromelaModel>(protocol: &P, seed: u64) -> (String, Vec<String>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let world = World::new(
        protocol.clone(),
        Carriage::Slots,
        Garbage::EverySingle,
        0,
        usize::MAX,
    );
    let mut nodes = Vec::new();
    for index in 0..protocol.members() {
        let choices = (0..).take_while(|choice| protocol.start(index, *choice).is_some());
        let choice = random.random_range(0..choices.count());
        // The nodes of every other world start clean.
        let node = protocol.start(index, choice).filter(|_| seed % 2 == 1);
        nodes.push(node.unwrap_or_else(|| protocol.clean(index)));
    }
    let mut channels = Channels::new();
    for to in 0..protocol.members() {
        for letter in protocol.garbage(Peer::at(to)) {
            if random.random_bool(0.05) {
                channels.push(letter, Carriage::Slots);
            }
        }
    }
    let mut state = StateOf::<P> { nodes, channels };
    let mut script = format!("0{}.", protocol.starting(&state));
    let mut lines = vec![protocol.line(&state)];
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        steps.clear();
        world.actions(&state, &mut steps);
        let Some(step) = steps.choose(&mut random) else {
            break;
        };
        script += &match step {
            Step::Spontaneous(me) => format!("x{}.", me.index()),
            Step::Receive(letter) => format!("{}.", protocol.receiving(letter)),
        };
        state = world.next_state(&state, *step).unwrap_or(state);
        lines.push(protocol.line(&state));
    }
    (script, lines)
}

fn is_without_spin() -> bool {
    let is_missing = Command::new("spin").arg("-V").output().is_err();
    if is_missing {
        // The test passes, and output of `eprintln` would not be shown.
        let told = writeln!(std::io::stderr(), "skipped: spin is not installed");
        told.expect("told");
    }
    is_missing
}

fn spin() -> Command {
    Command::new("spin")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("spin")
}

/// The lines that the model prints when it follows a script.
fn replay(model: &str, parameters: &[String], script: &str) -> Vec<String> {
    spin();
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("script");
    std::fs::write(&path, format!("{script}e")).expect("a script");
    // A model that lacks a step of the script would wait for ever.
    let output = Command::new("timeout")
        .args(["60", "spin", "-T", "-B", "-DREPLAY"])
        .current_dir(work.path())
        .args(parameters)
        .arg(folder().join(model))
        .stdin(Stdio::from(File::open(&path).expect("a script")))
        .output()
        .expect("spin runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// The first difference between the machines and their model.
fn difference<P: PromelaModel>(protocol: &P, bug: Option<&str>) -> Option<String> {
    let (model, mut parameters) = protocol.model();
    parameters.extend(bug.map(|bug| format!("-DPLANT_{bug}")));
    let walks: Vec<(String, Vec<String>)> = (0..SEEDS).map(|seed| walk(protocol, seed)).collect();
    let script: String = walks.iter().map(|(script, _)| script.as_str()).collect();
    let mut told = replay(model, &parameters, &script).into_iter();
    for (seed, (script, lines)) in walks.iter().enumerate() {
        let of_model: Vec<String> = told.by_ref().take(lines.len()).collect();
        let steps = script.split('.');
        for (number, ((ours, theirs), step)) in lines.iter().zip(&of_model).zip(steps).enumerate() {
            if ours != theirs {
                let what = format!("{parameters:?}, seed {seed}, step {number}, {step}");
                return Some(format!("{what}\nmachine {ours}\nmodel   {theirs}"));
            }
        }
        if of_model.len() < lines.len() {
            return Some(format!("{parameters:?}, seed {seed}: the model stops"));
        }
    }
    None
}

fn same<P: PromelaModel>(protocol: &P) {
    let difference = difference(protocol, None);
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}

/// The number of states that SPIN stores.
fn stored(model: &str, parameters: &[String]) -> usize {
    let work = tempfile::tempdir().expect("a folder");
    let run = |command: &mut Command| {
        let output = command.current_dir(work.path()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        text
    };
    run(spin().args(parameters).arg("-a").arg(folder().join(model)));
    run(Command::new("cc").args(["-O2", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"]));
    let text = run(Command::new(work.path().join("pan")).args(["-m1000000", "-w22"]));
    assert!(text.contains("errors: 0"), "{text}");
    let line = text.lines().find(|line| line.contains("states, stored"));
    let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    count.expect("a number of states")
}

#[test]
fn the_model_of_the_ring_takes_the_steps_of_the_ring() {
    if is_without_spin() {
        return;
    }
    for nodes in 2..=5 {
        for ring in RingOn::all(nodes, false, Planted::default()) {
            same(&ring);
        }
    }
}

#[test]
fn the_model_of_the_fingers_takes_the_steps_of_the_fingers() {
    if is_without_spin() {
        return;
    }
    for nodes in 3..=6 {
        same(&FingersOn::new(nodes, Rules::default()));
    }
}

/// The comparison can fail: it finds a difference between the machine and a model with a bug.
#[test]
fn a_model_with_a_bug_is_found_out() {
    if is_without_spin() {
        return;
    }
    let ring = |bug| {
        let mut rings = RingOn::all(3, false, Planted::default()).into_iter();
        rings.any(|ring| difference(&ring, Some(bug)).is_some())
    };
    assert!(ring("DROPPED_B_CONNECT") && ring("LIVELOCK"));
    let fingers = FingersOn::new(4, Rules::default());
    assert!(difference(&fingers, Some("LEVEL_BOUND")).is_some());
}

/// The search starts from every table with every single letter. SPIN stores one more state, the
/// one before all starts.
#[test]
fn the_ring_and_its_model_have_as_many_states() {
    if is_without_spin() {
        return;
    }
    for nodes in 2..=3 {
        for ring in RingOn::all(nodes, false, Planted::default()) {
            let (model, mut parameters) = ring.model();
            parameters.push("-DSTART=SINGLE".to_owned());
            let world = World::new(ring, Carriage::Slots, Garbage::EverySingle, 12, usize::MAX);
            assert_eq!(search(world, 2).states + 1, stored(model, &parameters));
        }
    }
}

/// The search starts from every table, without letters.
#[test]
fn the_fingers_and_their_model_have_as_many_states() {
    if is_without_spin() {
        return;
    }
    let fingers = FingersOn::new(3, Rules::default());
    let (model, mut parameters) = fingers.model();
    parameters.push("-DSTART=TABLES".to_owned());
    let world = World::new(
        fingers,
        Carriage::Slots,
        Garbage::EverySingle,
        12,
        usize::MAX,
    );
    let mut waiting = world.init_states();
    waiting.retain(|state| state.channels.letters().is_empty());
    let mut seen: HashSet<_> = waiting.iter().cloned().collect();
    let mut steps = Vec::new();
    while let Some(state) = waiting.pop() {
        steps.clear();
        world.actions(&state, &mut steps);
        for next in steps
            .iter()
            .filter_map(|step| world.next_state(&state, *step))
        {
            if seen.insert(next.clone()) {
                waiting.push(next);
            }
        }
    }
    assert_eq!(seen.len() + 1, stored(model, &parameters));
}
