//! Links between processes, and the messages that travel over them.

use std::time::Duration;

use binomesh_overlay::lives::{Admission, admission};

use super::life::Host;
use super::line::{Line, Stream};
use super::network::{Connection, Life};
use super::{Happening, Id, World};
use crate::peer::{Input, Message};

impl World {
    /// A process wants a link from now on. It counts as the dialler if the other end is alive and
    /// does not want the link yet.
    pub(super) fn claim(&mut self, id: Id, peer: Id) {
        let other = self.hosts.get(&peer);
        let is_new = |other: &Host| other.peer.is_some() && !other.claimed.contains(&id);
        if other.is_some_and(|other| is_new(other)) {
            self.dialled += 1;
            if self.dials.len() < Self::DIALS {
                self.dials.push((id, peer));
            }
        }
        if let Some(host) = self.hosts.get_mut(&id) {
            host.claimed.insert(peer);
        }
        self.link(id, peer);
    }

    /// A process believes its link to a peer to be dead. If the network has no link between the two
    /// any more, the process dials: now, and with each later message to that peer.
    pub(super) fn doubt(&mut self, id: Id, peer: Id) {
        if let Some(host) = self.hosts.get_mut(&id)
            && host.linked.contains_key(&peer)
        {
            host.doubted.insert(peer);
            self.link(id, peer);
        }
    }

    /// The link between two processes. If there is none, it is made. `None` if `to` is dead or
    /// paused, one direction is cut, `from` still believes in a stale link, or one of the two does
    /// not admit the other.
    pub(super) fn link(&mut self, from: Id, to: Id) -> Option<Connection> {
        if let Some(link) = self.network.connection(from, to) {
            return Some(link);
        }
        let is_stale = |host: &Host| host.stale.contains(&to) && !host.doubted.contains(&to);
        if self.hosts.get(&from).is_some_and(|host| is_stale(host)) {
            return None;
        }
        let now = self.now;
        let answers = self.hosts.get(&to);
        let answers = answers.is_some_and(|host| host.peer.is_some() && host.paused_until <= now);
        let is_cut = self.network.is_cut(now, from, to) || self.network.is_cut(now, to, from);
        if from == to || !answers || is_cut {
            return None;
        }
        let latency = self.network.conditions(now).latency;
        let chance = self.line(from, to)?.chance().next();
        let greeting = (latency.draw(chance) + self.network.extra(now, from, to)) * 2;
        // The acceptor judges the dialler first, then the dialler the acceptor.
        if !self.admits(to, from, greeting) || !self.admits(from, to, greeting) {
            return None;
        }
        let [one, other] = [from, to].map(|id| Life {
            id,
            boot: self.claimed_boot(id),
        });
        let link = self.network.connect(one, other, now + greeting);
        for (at, peer) in [(from, to), (to, from)] {
            let boots = (self.boot(at), link.boot_of(peer, at));
            let number = link.number;
            let up = Happening::LinkUp {
                at,
                peer,
                boots,
                number,
            };
            self.agenda.insert(link.up, up);
        }
        Some(link)
    }

    /// Whether process `by` admits process `id`, which greets it. If not, `id` is shown the newer
    /// life of its identity.
    fn admits(&mut self, by: Id, id: Id, greeting: Duration) -> bool {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&id) else {
            return false;
        };
        host.note_membership();
        let (greeter, boot) = (host.greeter(now), host.config.boot);
        let Some(judge) = self.hosts.get_mut(&by) else {
            return false;
        };
        let newest = judge.lives.newest(id).map(|(newest, ())| newest);
        // In a world one process has one identity, and its former links end with it.
        match (admission(greeter, newest, None, None), newest) {
            (Admission::Outdated, Some(newest)) => {
                let at = id;
                self.later(greeting, Happening::Shown { at, boot, newest });
                false
            }
            _ => {
                if greeter.is_proven {
                    judge.lives.note(id, greeter.boot, ());
                }
                true
            }
        }
    }

    /// A greeting is over. If there was a former link, the host first hears of its end. If the new
    /// link has broken meanwhile, this end notices after the idle timeout at the latest. The
    /// greeting has no effect if a later link is known.
    pub(super) fn on_link_up(&mut self, at: Id, peer: Id, boot: u64, number: u64) {
        let current = self.network.connection(at, peer);
        let is_broken = current.is_none_or(|current| current.number != number);
        let Some(host) = self.hosts.get_mut(&at) else {
            return;
        };
        let known = host.linked.get(&peer);
        if is_broken && known.is_some_and(|(known, _)| *known > number) {
            return;
        }
        let former = host.linked.insert(peer, (number, boot));
        host.stale.remove(&peer);
        host.doubted.remove(&peer);
        if is_broken {
            let boot = host.config.boot;
            let down = Happening::LinkDown {
                at,
                peer,
                boot,
                number,
            };
            self.later(self.network.idle_timeout, down);
        }
        if former.is_some() {
            self.feed(at, Input::LinkDown { peer });
        }
        self.feed(at, Input::LinkUp { peer, boot });
        let latency = self.network.conditions(self.now).latency.draw(u64::MAX / 2);
        let time = (latency + self.network.extra(self.now, at, peer)) * 2;
        self.feed(at, Input::RoundTrip { peer, time });
    }

    /// If no message has come over a link for its idle timeout, the receiver takes the link for
    /// broken. The other end hears nothing from then on, and notices after a further idle timeout.
    pub(super) fn on_silence(&mut self, from: Id, to: Id, number: u64, since: Duration) {
        if !self.network.is_silent(from, to, number, since) {
            return;
        }
        self.network.disconnect(from, to, number);
        let timeout = self.network.idle_timeout;
        for (after, at, peer) in [(Duration::ZERO, to, from), (timeout, from, to)] {
            let boot = self.boot(at);
            let down = Happening::LinkDown {
                at,
                peer,
                boot,
                number,
            };
            self.later(after, down);
        }
    }

    /// A process sends a message; a liar alters it, and a muted layer is not understood.
    pub(super) fn send(&mut self, from: Id, to: Id, message: Message<Id>) {
        self.sent += 1;
        let now = self.now;
        let Some(host) = self.hosts.get_mut(&from) else {
            return;
        };
        if (host.mute).is_some_and(|(layer, until)| until > now && layer.has(&message)) {
            return;
        }
        match &mut host.liar {
            Some(liar) if liar.is_lying(now) => {
                for (to, message) in liar.twist(from, to, message) {
                    self.post(from, to, message);
                }
            }
            _ => self.post(from, to, message),
        }
    }

    /// Put a message on its line, where it waits if the line is narrow. Without a link it is lost.
    pub(super) fn post(&mut self, from: Id, to: Id, message: Message<Id>) {
        let Some(link) = self.link(from, to) else {
            return;
        };
        let Some(line) = self.line(from, to) else {
            return;
        };
        match &mut line.narrow {
            None => self.transmit(from, to, link, message),
            Some(narrow) => {
                narrow.push(message);
                if !std::mem::replace(&mut narrow.is_busy, true) {
                    self.later(Duration::ZERO, Happening::Room { from, to });
                }
            }
        }
    }

    /// A narrow line is ready for its next message.
    pub(super) fn on_room(&mut self, from: Id, to: Id) {
        let now = self.now;
        let Some(line) = self.line(from, to) else {
            return;
        };
        let Some(narrow) = &mut line.narrow else {
            return;
        };
        if narrow.until <= now {
            return self.widen(from, to);
        }
        let pause = narrow.pause;
        let next = narrow.pop();
        narrow.is_busy = next.is_some();
        let tell = narrow.take_writable();
        if let Some(message) = next {
            if let Some(link) = self.link(from, to) {
                self.transmit(from, to, link, message);
            }
            self.later(pause, Happening::Room { from, to });
        }
        if tell {
            self.feed(from, Input::Writable { peer: to });
        }
    }

    /// A line is no longer narrow: all waiting messages go at once. A sender that waits for room is
    /// told that there is room.
    fn widen(&mut self, from: Id, to: Id) {
        let narrow = self.line(from, to).and_then(|line| line.narrow.take());
        let Some(mut narrow) = narrow else {
            return;
        };
        while let Some(message) = narrow.pop() {
            if let Some(link) = self.link(from, to) {
                self.transmit(from, to, link, message);
            }
        }
        if narrow.take_writable() {
            self.feed(from, Input::Writable { peer: to });
        }
    }

    /// Let a message travel, unless it is lost.
    fn transmit(&mut self, from: Id, to: Id, link: Connection, message: Message<Id>) {
        let now = self.now;
        if self.network.is_cut(now, from, to) {
            return self.fall_silent(from, to);
        }
        self.network.note(from, to, None);
        let conditions = self.network.conditions(now);
        let extra = self.network.extra(now, from, to);
        let boots = (self.boot(to), link.boot_of(from, to));
        let Some(line) = self.line(from, to) else {
            return;
        };
        let mut chance = line.chance();
        let (fate, travel) = (chance.next(), chance.next());
        // One random word yields three draws, each of a number below a million.
        let happens = |shift: u32, per_million: u32| {
            per_million > 0 && (fate >> shift) % 1_000_000 < u64::from(per_million)
        };
        let begins = now.max(link.up);
        let uplinks = self.uplinks.as_mut();
        let leaves = uplinks.map_or(begins, |uplinks| uplinks.send(from, &message, begins));
        let Some(line) = self
            .line(from, to)
            .filter(|_| !happens(0, conditions.loss_per_million))
        else {
            return;
        };
        let earliest = leaves + conditions.latency.draw(travel) + extra;
        let arrival = if happens(20, conditions.reordered_per_million) {
            earliest
        } else {
            line.in_order(Stream::of(&message), earliest)
        };
        let arrive = |message| Happening::Arrival {
            to,
            from,
            boots,
            message,
        };
        if happens(40, conditions.duplicated_per_million) {
            let again = earliest + conditions.latency.draw(chance.next());
            self.agenda.insert(again, arrive(message.clone()));
        }
        self.agenda.insert(arrival, arrive(message));
    }

    /// The receiver's transport acknowledges a message that has come through. Acknowledgements are
    /// small and repeated, so they are lost only where the way back is cut.
    pub(super) fn acknowledge(&mut self, by: Id, to: Id, boot: u64) {
        let is_cut = self.network.is_cut(self.now, by, to);
        if let Some(host) = self.hosts.get_mut(&to)
            && !is_cut
            && host.config.boot == boot
        {
            host.acknowledged.insert(by);
        }
    }

    /// Tell a peer which silent neighbours have acknowledged a message, as its host does before
    /// each look.
    pub(super) fn tell_acknowledged(&mut self, at: Id) {
        let Some(host) = self.hosts.get_mut(&at) else {
            return;
        };
        let all = std::mem::take(&mut host.acknowledged);
        let Some(peer) = &host.peer else {
            return;
        };
        let silent: Vec<Id> = peer.overlay().silent_neighbours().collect();
        for peer in silent.into_iter().filter(|id| all.contains(id)) {
            self.feed(at, Input::Acknowledged { peer });
        }
    }

    /// From now on no message comes through: note the time, once.
    fn fall_silent(&mut self, from: Id, to: Id) {
        let Some(link) = self.network.connection(from, to) else {
            return;
        };
        if self.network.note(from, to, Some(self.now)) {
            let silence = Happening::Silence {
                from,
                to,
                number: link.number,
                since: self.now,
            };
            let timeout = self.network.idle_timeout;
            self.later(timeout, silence);
        }
    }

    pub(super) fn line(&mut self, from: Id, to: Id) -> Option<&mut Line> {
        let seed = self.seed;
        let host = self.hosts.get_mut(&from)?;
        let line = host.lines.entry(to);
        Some(line.or_insert_with(|| Line::new(seed, from, to)))
    }

    /// The boot that a peer claims, which a liar may invent.
    fn claimed_boot(&self, id: Id) -> u64 {
        let host = self.hosts.get(&id);
        host.map_or(0, |host| host.greeter(self.now).boot)
    }
}
