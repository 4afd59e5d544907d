//! Tabu search for a schedule in a given number of steps.
//!
//! Every delivery has a choice and a step from the beginning. The search reduces the number of
//! conflicts, as in [EVO] §3.3, and of senders that do not hold the message yet. In each move a
//! delivery in trouble gets the choice and step with the least trouble, except for those that it
//! had recently.
//!
//! Departure: [EVO] repairs inadmissible broadcast trees (§3.4). Here a sender without the message
//! is a kind of conflict, and is removed like one.

use binomesh_overlay::noise::Noise;

use super::bag::Bag;
use super::instance::{Instance, Teller};
use super::paths::below;

/// The choice of an item, and its step from 0.
pub(super) type Gene = (usize, usize);

/// The weight of each other message on a channel or port in the same step. Each channel of a path
/// beyond the shortest length has weight 1, so that of two paths with equal conflicts the shorter
/// one is preferred: it leaves more room.
const CROWDED: u32 = 4;
/// The weight of a sender without the message.
const LATE: u32 = 2 * CROWDED;
/// The least and the largest number of entries of the memory of tabu genes. Clearing more takes
/// longer than a small search. Two genes may share an entry: then one is tabu by mistake, which
/// does little harm.
const MEMORY: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 18;
/// How many entries there are per (delivery, step), within [`MEMORY`]. Guess: with fewer, more
/// genes share an entry and are tabu by mistake.
const MEMORY_PER_CELL: usize = 8;
/// Once in this many evaluations, `goes_on` is asked and the limit of evaluations looked at.
const PATIENCE: u64 = 1 << 16;

/// A search for one number of steps.
pub(super) struct Tabu<'a> {
    instance: &'a Instance,
    steps: usize,
    genes: Vec<Gene>,
    /// For each resource and step, how many items use it.
    load: Vec<u32>,
    /// For each resource and step, the items that use it.
    users: Vec<Vec<u32>>,
    /// For each resource a bit for each step in which it is in use, in words of 64.
    busy: Vec<u64>,
    words: usize,
    /// Pairs (resource, step) in use more than once.
    crowded: Bag,
    /// Items whose sender does not hold the message in time.
    late: Bag,
    /// For each item, the items whose sender is the node that this item tells. They must come in a
    /// later step.
    told_by: Vec<Vec<u32>>,
    tabu: Vec<u64>,
    moves: u64,
    noise: Noise,
    /// How many pairs (choice, step) were weighed. Each move counts as one more, and so does each
    /// path in `free_gene`.
    pub(super) evaluations: u64,
}

impl<'a> Tabu<'a> {
    /// A search that begins with these genes. A delivery without a gene, with one out of range, or
    /// with a sender that lacks the message is placed as late as it fits without a conflict. If it
    /// fits nowhere, its gene is drawn. If no genes are given, all are drawn.
    pub(super) fn new(
        instance: &'a Instance,
        steps: usize,
        start: &[Option<Gene>],
        seed: u64,
    ) -> Self {
        let items = instance.items.len();
        let cells = instance.resources * steps;
        let memory = (items * steps * MEMORY_PER_CELL).next_power_of_two();
        let memory = memory.clamp(*MEMORY.start(), *MEMORY.end());
        let mut tabu = Self {
            instance,
            steps,
            genes: vec![(0, 0); items],
            load: vec![0; cells],
            users: vec![Vec::new(); cells],
            busy: vec![0; instance.resources * steps.div_ceil(64)],
            words: steps.div_ceil(64),
            crowded: Bag::new(cells),
            late: Bag::new(items),
            told_by: vec![Vec::new(); items],
            tabu: vec![0; memory],
            moves: 0,
            noise: Noise::new(seed),
            evaluations: 0,
        };
        if start.iter().any(Option::is_some) {
            tabu.begin_from(start);
        } else {
            for item in 0..items {
                let gene = tabu.draw(item);
                tabu.set(item, gene);
            }
        }
        for item in 0..items {
            tabu.judge(item);
        }
        tabu
    }

    /// How many lists a search keeps: one for each resource and step.
    pub(super) const fn cells(instance: &Instance, steps: usize) -> usize {
        instance.resources.saturating_mul(steps)
    }

    /// Keep the old deliveries that are still possible, then place the other ones.
    fn begin_from(&mut self, start: &[Option<Gene>]) {
        let mut is_placed = vec![false; self.genes.len()];
        let mut order: Vec<usize> = (0..self.genes.len()).collect();
        let step_of = |item: &usize| {
            start
                .get(*item)
                .copied()
                .flatten()
                .map_or(usize::MAX, |gene| gene.1)
        };
        // In this order the delivery to a sender comes before those that the sender makes later.
        order.sort_by_key(step_of);
        let mut broken = Vec::new();
        for item in order {
            let choices = self.instance.items[item].choices();
            let given = start.get(item).copied().flatten();
            let given = given.filter(|(choice, step)| {
                choices.contains(choice)
                    && *step < self.steps
                    && self.holds(item, *choice, *step, &is_placed)
            });
            match given {
                Some(gene) => {
                    self.set(item, gene);
                    is_placed[item] = true;
                }
                None => broken.push(item),
            }
        }
        for item in broken {
            let gene = self.free_gene(item, &is_placed);
            let gene = gene.unwrap_or_else(|| self.draw(item));
            self.set(item, gene);
            is_placed[item] = true;
        }
    }

    /// Whether the sender of a choice holds the message before a step, by the placed items.
    fn holds(&self, item: usize, choice: usize, step: usize, is_placed: &[bool]) -> bool {
        match self.instance.teller(item, choice) {
            Teller::Origin => true,
            Teller::Item(told) => is_placed[told] && self.genes[told].1 < step,
            Teller::Nobody => false,
        }
    }

    /// The choice whose last free step is the latest, and that step. Choices whose sender does not
    /// hold the message by then are left out. In late steps most nodes hold the message, and steps
    /// that the old schedule did not have are empty. All free steps of a path are found at once, so
    /// a path counts as one evaluation.
    fn free_gene(&mut self, item: usize, is_placed: &[bool]) -> Option<Gene> {
        let mut last: Option<Gene> = None;
        for choice in self.instance.items[item].choices() {
            self.evaluations += 1;
            let step = self.last_free_step(choice);
            let step = step.filter(|step| self.holds(item, choice, *step, is_placed));
            if let Some(step) = step
                && last.is_none_or(|(_, before)| before < step)
            {
                last = Some((choice, step));
            }
        }
        last
    }

    /// The last step in which no item uses any resource of a choice.
    fn last_free_step(&self, choice: usize) -> Option<usize> {
        let resources = self.instance.resources_of(choice);
        let mut words = (0..self.words).rev();
        words.find_map(|word| {
            let in_use = |one: &u32| self.busy[*one as usize * self.words + word];
            let busy = resources.iter().fold(0, |all, one| all | in_use(one));
            let steps = (self.steps - word * 64).min(64) as u32;
            let free = !busy & (u64::MAX >> (64 - steps));
            free.checked_ilog2().map(|bit| word * 64 + bit as usize)
        })
    }

    /// Give an item its first gene.
    fn set(&mut self, item: usize, gene: Gene) {
        self.genes[item] = gene;
        self.put(item, gene);
    }

    /// Search until no item is in trouble, or until `most` evaluations are made or `goes_on`
    /// denies. These two are looked at once in [`PATIENCE`] evaluations. Returns whether there is a
    /// schedule.
    pub(super) fn run(&mut self, most: u64, goes_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let (mut next_question, mut told) = (PATIENCE, 0);
        loop {
            let trouble = self.crowded.len() + self.late.len();
            if trouble == 0 {
                goes_on(self.evaluations - told);
                return true;
            }
            if self.evaluations >= next_question {
                let is_over = !goes_on(self.evaluations - told);
                told = self.evaluations;
                next_question = told + PATIENCE;
                if is_over || told >= most {
                    return false;
                }
            }
            let item = self.pick(trouble);
            self.improve(item);
            self.moves += 1;
            // An item with a single choice costs nothing to weigh, and the loop must end for it as
            // well.
            self.evaluations += 1;
        }
    }

    /// The choice and step of every item.
    pub(super) fn genes(&self) -> &[Gene] {
        &self.genes
    }

    /// Draw an item in trouble.
    fn pick(&mut self, trouble: usize) -> usize {
        let place = below(trouble, &mut self.noise);
        match self.crowded.get(place) {
            Some(cell) => {
                let users = &self.users[cell];
                users[below(users.len(), &mut self.noise)] as usize
            }
            None => self.late.get(place - self.crowded.len()).unwrap_or(0),
        }
    }

    fn improve(&mut self, item: usize) {
        let old = self.genes[item];
        self.take(item, old);
        let best = self.best(item, old);
        let tenure = 4 + below(8, &mut self.noise) + (self.crowded.len() + self.late.len()) / 2;
        let place = self.memory(item, old);
        self.tabu[place] = self.moves + tenure as u64;
        self.put(item, best);
        self.genes[item] = best;
        self.judge(item);
        for place in 0..self.told_by[item].len() {
            self.judge(self.told_by[item][place] as usize);
        }
    }

    /// The gene with the least trouble, except for the old one, those that are tabu, and those
    /// whose sender never gets the message. If all are excepted, the old gene.
    fn best(&mut self, item: usize, old: Gene) -> Gene {
        let steps = self.steps;
        let mut base = vec![0; steps];
        for child in &self.told_by[item] {
            // A child in step s is late if the item is told in step s or later.
            let step = self.genes[*child as usize].1;
            base[step..].iter_mut().for_each(|cost| *cost += LATE);
        }
        let mut costs = vec![0; steps];
        let (mut best, mut least, mut ties) = (old, u32::MAX, 0);
        for choice in self.instance.items[item].choices() {
            let extra = self.instance.extra(choice);
            for (cost, base) in costs.iter_mut().zip(&base) {
                *cost = base + extra;
            }
            match self.instance.teller(item, choice) {
                Teller::Origin => {}
                Teller::Item(told) => {
                    let told = self.genes[told].1;
                    costs[..=told].iter_mut().for_each(|cost| *cost += LATE);
                }
                Teller::Nobody => continue,
            }
            for resource in self.instance.resources_of(choice) {
                let cells = *resource as usize * steps;
                let load = &self.load[cells..cells + steps];
                for (cost, load) in costs.iter_mut().zip(load) {
                    *cost += CROWDED * *load;
                }
            }
            self.evaluations += steps as u64;
            for (step, cost) in costs.iter().enumerate() {
                let gene = (choice, step);
                if *cost > least || gene == old || self.is_tabu(item, gene) {
                    continue;
                }
                ties = if *cost < least { 1 } else { ties + 1 };
                if *cost < least || below(ties, &mut self.noise) == 0 {
                    (best, least) = (gene, *cost);
                }
            }
        }
        best
    }

    fn is_tabu(&self, item: usize, gene: Gene) -> bool {
        self.tabu[self.memory(item, gene)] > self.moves
    }

    /// The entry of a gene. In a broadcast, which has few steps, an item shall not come back soon
    /// to the same choice in the same step. In a scatter, which has many steps, an item shall not
    /// come back soon to a step, by any choice.
    fn memory(&self, item: usize, (choice, step): Gene) -> usize {
        let part = if self.instance.is_broadcast() {
            choice + 1
        } else {
            0
        };
        let key = (item * self.steps + step).wrapping_add(part.wrapping_mul(0x9e37_79b1));
        key % self.tabu.len()
    }

    fn draw(&mut self, item: usize) -> Gene {
        let choices = self.instance.items[item].choices();
        let step = below(self.steps, &mut self.noise);
        // Some choice can always tell, since the origin reaches all nodes. A few draws mostly find
        // such a choice.
        for _ in 0..32 {
            let choice = choices.start + below(choices.len(), &mut self.noise);
            if self.instance.teller(item, choice) != Teller::Nobody {
                return (choice, step);
            }
        }
        let mut choices = choices.clone();
        let able = choices.find(|choice| self.instance.teller(item, *choice) != Teller::Nobody);
        (
            able.unwrap_or(self.instance.items[item].choices().start),
            step,
        )
    }

    fn put(&mut self, item: usize, (choice, step): Gene) {
        for resource in self.instance.resources_of(choice) {
            let cell = *resource as usize * self.steps + step;
            self.load[cell] += 1;
            self.users[cell].push(item as u32);
            match self.load[cell] {
                1 => self.busy[*resource as usize * self.words + step / 64] |= 1 << (step % 64),
                2 => self.crowded.insert(cell),
                _ => {}
            }
        }
        if let Teller::Item(told) = self.instance.teller(item, choice) {
            self.told_by[told].push(item as u32);
        }
    }

    fn take(&mut self, item: usize, (choice, step): Gene) {
        for resource in self.instance.resources_of(choice) {
            let cell = *resource as usize * self.steps + step;
            self.load[cell] -= 1;
            remove(&mut self.users[cell], item as u32);
            match self.load[cell] {
                0 => self.busy[*resource as usize * self.words + step / 64] &= !(1 << (step % 64)),
                1 => self.crowded.remove(cell),
                _ => {}
            }
        }
        if let Teller::Item(told) = self.instance.teller(item, choice) {
            remove(&mut self.told_by[told], item as u32);
        }
    }

    /// Note whether an item is late.
    fn judge(&mut self, item: usize) {
        let (choice, step) = self.genes[item];
        let is_late = match self.instance.teller(item, choice) {
            Teller::Origin => false,
            Teller::Item(told) => self.genes[told].1 >= step,
            Teller::Nobody => true,
        };
        match is_late {
            true => self.late.insert(item),
            false => self.late.remove(item),
        }
    }
}

fn remove(list: &mut Vec<u32>, what: u32) {
    if let Some(place) = list.iter().position(|one| *one == what) {
        list.swap_remove(place);
    }
}
