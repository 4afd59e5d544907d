//! What a trial does to its processes.

use std::collections::BTreeSet;
use std::time::Duration;

use binomesh::peer::Input;
use binomesh::world::{Id, Step};
use rand::Rng;
use rand::seq::IndexedRandom;

use super::{DRAIN, Trial};

impl Trial {
    /// Who is up and not about to leave.
    pub(super) fn standing(&self) -> Vec<Id> {
        let up = self.world.peers().map(|(id, _)| id);
        up.filter(|id| !self.leaving.contains_key(id)).collect()
    }

    fn victim(&mut self) -> Option<Id> {
        let is_enough = self.down.len() * 3 >= self.configs.len();
        let standing = self.standing();
        let victim = standing.choose(&mut self.rng).copied();
        victim.filter(|_| !is_enough && standing.len() > 1)
    }

    pub(super) fn crash(&mut self) {
        if let Some(id) = self.victim() {
            self.faults += 1;
            self.stop(id);
        }
    }

    fn stop(&mut self, id: Id) {
        let (now, boot) = (self.world.now(), self.world.boot(id));
        self.checker.on_end(now, id, boot);
        self.world.act(&Step::Crash(id));
        self.down.insert(id);
        self.observe();
    }

    pub(super) fn restart(&mut self) {
        let down: Vec<Id> = self.down.iter().copied().collect();
        if let Some(id) = down.choose(&mut self.rng).copied() {
            self.faults += 1;
            self.start_again(id);
        }
    }

    pub(super) fn start_again(&mut self, id: Id) {
        self.down.remove(&id);
        let now = self.world.now();
        self.world.act(&Step::Restart(id));
        self.checker.on_start(now, id, self.world.boot(id));
        self.observe();
    }

    /// A crash and a restart before anybody can notice.
    pub(super) fn bounce(&mut self) {
        if let Some(id) = self.victim() {
            self.faults += 1;
            self.stop(id);
            self.start_again(id);
        }
    }

    pub(super) fn pause(&mut self) {
        let standing = self.standing();
        if let Some(id) = standing.choose(&mut self.rng).copied() {
            self.faults += 1;
            let length = Duration::from_millis(self.rng.random_range(50..6000));
            self.world.act(&Step::Pause(id, length));
        }
    }

    pub(super) fn leave(&mut self) {
        if let Some(id) = self.victim() {
            self.faults += 1;
            let (now, boot) = (self.world.now(), self.world.boot(id));
            self.checker.on_end(now, id, boot);
            self.leaving.insert(id, now + DRAIN);
            self.world.feed(id, Input::Drain);
            self.observe();
        }
    }

    /// A leaving node is drained or has waited long enough: it goes.
    pub(super) fn go(&mut self, id: Id) {
        self.leaving.remove(&id);
        self.world.act(&Step::Leave(id));
        self.stop(id);
    }

    pub(super) fn join(&mut self) {
        let Some(next) = self.configs.keys().last().map(|last| last + 1) else {
            return;
        };
        if next < self.settings.nodes * 2 {
            self.faults += 1;
            let parent = self.standing().choose(&mut self.rng).copied();
            let config = self.config(next, parent);
            self.start(config);
        }
    }

    /// Whether the living could all find each other by what they were told at
    /// their start.
    pub(super) fn is_connected(&self) -> bool {
        let up: BTreeSet<Id> = self.world.peers().map(|(id, _)| id).collect();
        let told = |id: &Id| {
            let config = self.configs.get(id);
            config
                .into_iter()
                .flat_map(|config| config.seeds.iter().chain(&config.parent).copied())
        };
        let mut found: BTreeSet<Id> = up.first().copied().into_iter().collect();
        loop {
            let knows = |id: &Id| found.contains(id) || told(id).any(|at| found.contains(&at));
            let told_of: BTreeSet<Id> = found.iter().flat_map(told).collect();
            let reached = |id: &&Id| knows(id) || told_of.contains(id);
            let next: BTreeSet<Id> = up.iter().filter(reached).copied().collect();
            if next.len() == found.len() {
                return found.len() == up.len();
            }
            found = next;
        }
    }
}
