//! The paper's evolutionary search: UMDA, an estimation of distribution without gene dependencies
//! ([EVO] §3).
//!
//! A chromosome has a gene for each delivery: path and step, and for a broadcast also the source
//! (§3.2). Fitness is the number of conflicts (§3.3). A sender that does not hold the message in
//! time, which a repair can leave, counts as a conflict too. In each generation parents, half as
//! many as the population has chromosomes, are chosen by binary tournament. As many children are
//! drawn from the marginal distributions of the parents, mutated and repaired, and replace the
//! worse half (§3.5).
//!
//! Departure: [EVO] draws "the worse half of the population" by an order that it does not give.
//! Here it is the order of fitness.
//!
//! Departure: [EVO] starts all deliveries of a broadcast at step 0 (§3.4). Here their steps are
//! drawn, so that the first population is not all in conflict with itself.
//!
//! Departure: [EVO] does not say how many genes a mutation changes. Here it is up to three in
//! `GENES_PER_MUTATION`.

use binomesh_overlay::noise::Noise;

use super::instance::{Instance, Teller};
use super::paths::{below, shuffle};
use super::tabu::Gene;

/// The size of the population: [EVO] §3.5.
const POPULATION: usize = 60;
/// [EVO] §3.5: 90 % of the new chromosomes are mutated.
const MUTATED_PERCENT: usize = 90;
/// For this many genes, or fewer at the end, a mutation makes one change, which touches up to three
/// genes. Guess: the paper does not say how many.
const GENES_PER_MUTATION: usize = 64;

/// A population for one number of steps.
pub(super) struct Umda<'a> {
    instance: &'a Instance,
    steps: usize,
    /// The fitness and the genes of each chromosome, the best first.
    population: Vec<(u32, Vec<Gene>)>,
    /// For each sender the items with its messages, for the heuristic of §3.4.
    by_sender: Vec<Vec<usize>>,
    /// How many messages each sender can send per step.
    width: Vec<usize>,
    noise: Noise,
    /// For each resource and step, how many items use it; 0 between evaluations.
    load: Vec<u32>,
    /// The genes to begin with, where they are given.
    start: &'a [Option<Gene>],
}

impl<'a> Umda<'a> {
    /// An empty population. The first call of `run` or `generations` draws the chromosomes. Where
    /// `start` has a gene, most of the chromosomes begin with it.
    pub(super) fn new(
        instance: &'a Instance,
        steps: usize,
        width: &dyn Fn(usize) -> usize,
        start: &'a [Option<Gene>],
        seed: u64,
    ) -> Self {
        let mut senders = std::collections::BTreeMap::<usize, Vec<usize>>::new();
        for item in 0..instance.items.len() {
            senders.entry(instance.origin(item)).or_default().push(item);
        }
        Self {
            instance,
            steps,
            population: Vec::new(),
            width: senders.keys().map(|sender| width(*sender)).collect(),
            by_sender: senders.into_values().collect(),
            noise: Noise::new(seed),
            load: vec![0; instance.resources * steps],
            start,
        }
    }

    /// Make generations until there is no conflict, one more would evaluate more than `most`
    /// chromosomes, or `goes_on` denies. The first population is made in any case. Returns whether
    /// there is a schedule.
    pub(super) fn run(&mut self, most: u64, goes_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let generations = most.saturating_sub(POPULATION as u64) / (POPULATION as u64 / 2);
        self.generations(generations, goes_on);
        self.conflicts_least() == 0
    }

    /// Make at most this many generations. Returns how many there were.
    pub(super) fn generations(&mut self, most: u64, goes_on: &mut dyn FnMut(u64) -> bool) -> u64 {
        if self.population.is_empty() && !self.populate(goes_on) {
            return 0;
        }
        let mut count = 0;
        while self.conflicts_least() > 0 && count < most && self.generation(goes_on) {
            count += 1;
        }
        count
    }

    /// The fitness of the best chromosome.
    pub(super) fn conflicts_least(&self) -> u32 {
        self.population
            .first()
            .map_or(u32::MAX, |(fitness, _)| *fitness)
    }

    /// The fitness of the average chromosome.
    pub(super) fn conflicts_mean(&self) -> f64 {
        let sum: u64 = self
            .population
            .iter()
            .map(|(fitness, _)| u64::from(*fitness))
            .sum();
        sum as f64 / self.population.len().max(1) as f64
    }

    /// The genes of the best chromosome.
    pub(super) fn genes(&self) -> &[Gene] {
        self.population.first().map_or(&[], |(_, genes)| genes)
    }

    /// Draw the first population. Returns whether `goes_on` never denied.
    fn populate(&mut self, goes_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let instance = self.instance;
        let mut is_whole = true;
        for number in 0..POPULATION {
            // The first chromosome is as given; the others differ from it.
            let genes = (0..instance.items.len()).map(|item| {
                let given = self.start.get(item).copied().flatten();
                let given = given.filter(|(choice, step)| {
                    *step < self.steps && instance.items[item].choices().contains(choice)
                });
                match given {
                    Some(gene) if number == 0 || below(8, &mut self.noise) > 0 => gene,
                    _ => self.draw(item),
                }
            });
            let mut genes: Vec<Gene> = genes.collect::<Vec<_>>();
            self.restore(&mut genes);
            let fitness = self.conflicts(&genes);
            self.population.push((fitness, genes));
            if !goes_on(1) {
                is_whole = false;
                break;
            }
        }
        self.population.sort_by_key(|(fitness, _)| *fitness);
        is_whole
    }

    /// Replace the worse half, or nothing if `goes_on` denies. Returns whether it never denied.
    fn generation(&mut self, goes_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let parents: Vec<usize> = (0..POPULATION / 2).map(|_| self.tournament()).collect();
        let mut children = Vec::with_capacity(POPULATION / 2);
        for _ in 0..POPULATION / 2 {
            let mut genes = self.sample(&parents);
            if below(100, &mut self.noise) < MUTATED_PERCENT {
                self.mutate(&mut genes);
            }
            self.restore(&mut genes);
            children.push((self.conflicts(&genes), genes));
            if !goes_on(1) {
                return false;
            }
        }
        self.population.truncate(POPULATION - children.len());
        self.population.extend(children);
        self.population.sort_by_key(|(fitness, _)| *fitness);
        true
    }

    /// The better of two random chromosomes.
    fn tournament(&mut self) -> usize {
        let one = below(POPULATION, &mut self.noise);
        one.min(below(POPULATION, &mut self.noise))
    }

    /// A child. To draw a part of a gene from a random parent is to draw it from the marginal
    /// distribution of the parents.
    fn sample(&mut self, parents: &[usize]) -> Vec<Gene> {
        let noise = &mut self.noise;
        let mut parent = || parents[below(parents.len(), noise)];
        let genes = (0..self.instance.items.len()).map(|item| {
            let choice = self.population[parent()].1[item].0;
            (choice, self.population[parent()].1[item].1)
        });
        genes.collect()
    }

    /// Mutation, §3.4: the steps of two deliveries change places, and other paths are tried.
    fn mutate(&mut self, genes: &mut [Gene]) {
        for _ in 0..genes.len().div_ceil(GENES_PER_MUTATION) {
            let one = below(genes.len(), &mut self.noise);
            let other = below(genes.len(), &mut self.noise);
            (genes[one].1, genes[other].1) = (genes[other].1, genes[one].1);
            let changed = below(genes.len(), &mut self.noise);
            genes[changed].0 = self.draw(changed).0;
        }
    }

    fn restore(&mut self, genes: &mut [Gene]) {
        match self.instance.is_broadcast() {
            true => self.restore_trees(genes),
            false => self.restore_ports(genes),
        }
    }

    /// §3.4, scatter: no node sends more messages in a step than it has channels, or with one port
    /// than one. Messages beyond that go to random steps with room, if there are any.
    fn restore_ports(&mut self, genes: &mut [Gene]) {
        for sender in 0..self.by_sender.len() {
            let mut room = vec![self.width[sender]; self.steps];
            let mut beyond = Vec::new();
            let mut items = self.by_sender[sender].clone();
            shuffle(&mut items, &mut self.noise);
            for item in items {
                match room[genes[item].1].checked_sub(1) {
                    Some(left) => room[genes[item].1] = left,
                    None => beyond.push(item),
                }
            }
            for item in beyond {
                let open = (0..self.steps).filter(|step| room[*step] > 0);
                let open: Vec<usize> = open.collect();
                if let Some(step) = open.get(below(open.len(), &mut self.noise)) {
                    genes[item].1 = *step;
                    room[*step] -= 1;
                }
            }
        }
    }

    /// §3.4, broadcast: step by step, a source that does not hold the message is
    /// replaced by a random node that does.
    fn restore_trees(&mut self, genes: &mut [Gene]) {
        let mut order: Vec<usize> = (0..genes.len()).collect();
        order.sort_by_key(|item| genes[*item].1);
        for item in order {
            let step = genes[item].1;
            if self.is_told_before(item, genes[item].0, step, genes) {
                continue;
            }
            let choices = self.instance.items[item].choices();
            let able: Vec<usize> = choices
                .filter(|choice| self.is_told_before(item, *choice, step, genes))
                .collect();
            if let Some(choice) = able.get(below(able.len(), &mut self.noise)) {
                genes[item].0 = *choice;
            }
        }
    }

    fn is_told_before(&self, item: usize, choice: usize, step: usize, genes: &[Gene]) -> bool {
        match self.instance.teller(item, choice) {
            Teller::Origin => true,
            Teller::Item(told) => genes[told].1 < step,
            Teller::Nobody => false,
        }
    }

    /// Fitness, §3.3: pairs of messages on one channel or port in one step. A sender that does not
    /// hold the message in time counts as well.
    fn conflicts(&mut self, genes: &[Gene]) -> u32 {
        let late = (0..genes.len()).filter(|item| {
            let (choice, step) = genes[*item];
            !self.is_told_before(*item, choice, step, genes)
        });
        let mut conflicts = late.count() as u32;
        for (choice, step) in genes {
            for resource in self.instance.resources_of(*choice) {
                let load = &mut self.load[*resource as usize * self.steps + step];
                conflicts = conflicts.saturating_add(*load);
                *load += 1;
            }
        }
        for (choice, step) in genes {
            for resource in self.instance.resources_of(*choice) {
                self.load[*resource as usize * self.steps + step] = 0;
            }
        }
        conflicts
    }

    fn draw(&mut self, item: usize) -> Gene {
        let choices = self.instance.items[item].choices();
        let choice = choices.start + below(choices.len(), &mut self.noise);
        (choice, below(self.steps, &mut self.noise))
    }
}
