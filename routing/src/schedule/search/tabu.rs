//! Tabu search for a schedule in a given number of steps.
//!
//! Every delivery has a choice and a step from the beginning; what counts is
//! conflicts, as in [EVO] §3.3, and senders who do not hold the message yet. One
//! delivery in trouble at a time takes the choice and step with the least trouble,
//! other than those it had lately.
//!
//! Departure: [EVO] repairs inadmissible broadcast trees (§3.4); here a sender
//! without the message is a kind of conflict, and disappears like one.

use binomesh_overlay::noise::Noise;

use super::instance::{Instance, Teller};
use super::paths::below;

/// A choice and a step from 0.
pub(super) type Gene = (usize, usize);

/// What a channel used twice counts, beside 1 for each channel that a path has more
/// than the shortest one: of two ways with as many conflicts the shorter one leaves
/// more room.
const CROWDED: u32 = 4;
/// What a sender without the message counts.
const LATE: u32 = 2 * CROWDED;
/// How many (delivery, choice, step) are remembered as tabu; a power of two. Two may
/// share a place, which does no harm.
const MEMORY: usize = 1 << 18;
/// Whether to go on is asked once in so many evaluations.
const PATIENCE: u64 = 1 << 16;

/// A search for one number of steps.
pub(super) struct Tabu<'a> {
    instance: &'a Instance,
    steps: usize,
    genes: Vec<Gene>,
    /// By resource and step how many items use it.
    load: Vec<u32>,
    /// The same, with the items.
    users: Vec<Vec<u32>>,
    /// Resources and steps in use more than once.
    crowded: Bag,
    /// Items whose sender does not hold the message in time.
    late: Bag,
    /// By item: the items whose sender is the node that this item tells. They must
    /// come in a later step than it.
    told_by: Vec<Vec<u32>>,
    tabu: Vec<u64>,
    moves: u64,
    noise: Noise,
    /// How many (choice, step) were weighed.
    pub(super) evaluations: u64,
}

impl<'a> Tabu<'a> {
    /// A search that begins with these genes; whatever is out of range or absent is
    /// drawn.
    pub(super) fn new(
        instance: &'a Instance,
        steps: usize,
        start: &[Option<Gene>],
        seed: u64,
    ) -> Self {
        let items = instance.items.len();
        let cells = instance.resources * steps;
        let mut tabu = Self {
            instance,
            steps,
            genes: vec![(0, 0); items],
            load: vec![0; cells],
            users: vec![Vec::new(); cells],
            crowded: Bag::new(cells),
            late: Bag::new(items),
            told_by: vec![Vec::new(); items],
            tabu: vec![0; MEMORY],
            moves: 0,
            noise: Noise::new(seed),
            evaluations: 0,
        };
        for item in 0..items {
            let choices = instance.items[item].choices();
            let given = start.get(item).copied().flatten();
            let given = given.filter(|(choice, step)| choices.contains(choice) && *step < steps);
            tabu.genes[item] = given.unwrap_or_else(|| tabu.draw(item));
        }
        for item in 0..items {
            tabu.put(item, tabu.genes[item]);
        }
        for item in 0..items {
            tabu.judge(item);
        }
        tabu
    }

    /// Search until there is no conflict, `most` evaluations are made or `goes_on`
    /// denies. Whether there is a schedule.
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
            // An item of a single choice costs nothing to weigh, and must end as well.
            self.evaluations += 1;
        }
    }

    /// The choice and step of every item.
    pub(super) fn genes(&self) -> &[Gene] {
        &self.genes
    }

    /// An item in trouble.
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

    /// The least trouble that is not tabu; the least at all if everything is.
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
            let extra = self.instance.choices[choice].extra;
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
            for resource in &self.instance.choices[choice].resources {
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

    /// A broadcast has few steps and is not to come back to a choice at once; a
    /// scatter has many and is not to come back to a step.
    fn memory(&self, item: usize, (choice, step): Gene) -> usize {
        let part = if self.instance.is_broadcast() {
            choice + 1
        } else {
            0
        };
        let key = (item * self.steps + step).wrapping_add(part.wrapping_mul(0x9e37_79b1));
        key % MEMORY
    }

    fn draw(&mut self, item: usize) -> Gene {
        let choices = self.instance.items[item].choices();
        let step = below(self.steps, &mut self.noise);
        // Somebody can always tell: the origin reaches all. A few draws find one.
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
        for resource in &self.instance.choices[choice].resources {
            let cell = *resource as usize * self.steps + step;
            self.load[cell] += 1;
            self.users[cell].push(item as u32);
            if self.load[cell] == 2 {
                self.crowded.insert(cell);
            }
        }
        if let Teller::Item(told) = self.instance.teller(item, choice) {
            self.told_by[told].push(item as u32);
        }
    }

    fn take(&mut self, item: usize, (choice, step): Gene) {
        for resource in &self.instance.choices[choice].resources {
            let cell = *resource as usize * self.steps + step;
            self.load[cell] -= 1;
            remove(&mut self.users[cell], item as u32);
            if self.load[cell] == 1 {
                self.crowded.remove(cell);
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

/// A set of small numbers from which one can be drawn.
struct Bag {
    members: Vec<u32>,
    /// By number its place among the members, from 1; 0 if it is none.
    places: Vec<u32>,
}

impl Bag {
    fn new(most: usize) -> Self {
        Self {
            members: Vec::new(),
            places: vec![0; most],
        }
    }

    fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, place: usize) -> Option<usize> {
        self.members.get(place).map(|member| *member as usize)
    }

    fn insert(&mut self, member: usize) {
        if self.places[member] == 0 {
            self.members.push(member as u32);
            self.places[member] = self.members.len() as u32;
        }
    }

    fn remove(&mut self, member: usize) {
        let place = std::mem::take(&mut self.places[member]) as usize;
        if place > 0 {
            self.members.swap_remove(place - 1);
            if let Some(moved) = self.members.get(place - 1) {
                self.places[*moved as usize] = place as u32;
            }
        }
    }
}
