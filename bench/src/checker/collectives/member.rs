//! One member: the shipped acceptor, poll and lives, with the steps of its operation.

use std::collections::BTreeMap;

use binomesh_routing::collective::lives::{Lives, Record};
use binomesh_routing::collective::voting::{Acceptor, Ballot, Poll};
use binomesh_routing::collective::{Digest, Key};

use super::{Flaw, Peer, Setting};

/// The digest of the only list of members.
const LIST: Digest = [1; 16];

/// The new lives that a sender knows, by place.
type Among = Vec<(u32, u64)>;

/// A message between members.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// A question: promise to vote in no smaller ballot.
    Prepare(Ballot),
    /// I promise, and this was my last vote.
    Promise(Ballot, Peer, u64, Option<(Ballot, u8)>, Among),
    /// A question: vote for this value.
    Propose(Ballot, u8),
    /// I have voted in this ballot.
    Vote(Ballot, Peer, u64, Among),
    /// I was started again as this life.
    Introduce(Peer, u64),
    /// I know your new life.
    Known {
        /// The member with the new life.
        to: Peer,
        /// The number of the new life.
        boot: u64,
        /// The member that knows it.
        from: Peer,
        /// Whether the sender itself may vote.
        is_sure: bool,
        /// Whether the sender had begun a ballot, promised or voted, or may have in a former life.
        is_touched: bool,
    },
}

impl Message {
    /// Whether member `me` receives the message. A question to all members means nothing to its
    /// sender, which has handled it already.
    pub(super) fn is_for(&self, me: Peer) -> bool {
        let is_own = |ballot: &Ballot| ballot.proposer == me.index() as u32;
        match self {
            Self::Prepare(ballot) | Self::Propose(ballot, _) => !is_own(ballot),
            Self::Promise(ballot, ..) | Self::Vote(ballot, ..) => is_own(ballot),
            Self::Introduce(from, _) => *from != me,
            Self::Known { to, .. } => *to == me,
        }
    }
}

/// One member in one of its lives.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Member {
    me: Peer,
    boot: u64,
    acceptor: Acceptor<u8>,
    lives: Lives<Peer>,
    poll: Option<Poll<u8>>,
    has_polled: bool,
    round: u32,
    /// Whether a later life will know that this life or a former one took part. `None` if a record
    /// was lost once.
    record: Option<bool>,
}

/// A life of a member.
#[derive(Debug, Clone, Copy)]
struct Life {
    peer: Peer,
    boot: u64,
}

/// The effects of a member's step.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) sent: Vec<Message>,
    pub(super) learnt: Option<u8>,
}

impl Member {
    pub(super) fn new(me: Peer) -> Self {
        Self {
            me,
            boot: 1,
            acceptor: Acceptor::default(),
            lives: Lives::new(Record::Kept(BTreeMap::new())),
            poll: None,
            has_polled: false,
            round: 0,
            record: Some(false),
        }
    }

    const fn life(&self) -> Life {
        Life {
            peer: self.me,
            boot: self.boot,
        }
    }

    /// Begin another life, with or without the record of the former one.
    pub(super) fn restart(&mut self, has_record: bool, setting: Setting) {
        let kept = self.record.filter(|_| has_record);
        let Key { name, generation } = key();
        let record = match kept {
            _ if setting.flaw == Flaw::NoRecord => Record::Kept(BTreeMap::new()),
            Some(true) => Record::Kept([(name, generation)].into()),
            Some(false) => Record::Kept(BTreeMap::new()),
            None => Record::Lost,
        };
        let new = (setting.flaw == Flaw::NewRecord).then_some(false);
        *self = Self {
            boot: self.boot + 1,
            lives: Lives::new(record),
            record: kept.or(new),
            ..Self::new(self.me)
        };
    }

    /// Begin a ballot. The first ballot of the first member needs no promises, if the member has
    /// neither promised nor voted and certainly no former life took part.
    pub(super) fn begin(&mut self, setting: Setting, out: &mut Out) {
        let is_first = self.lives.is_new(&key())
            && !self.has_polled
            && self.acceptor.is_untouched()
            && self.me.index() == 0;
        self.record = self.record.and(Some(true));
        self.has_polled = true;
        if is_first {
            let (me, value) = (self.me.index() as u32, self.value());
            let poll = Poll::first(me, self.boot, setting.members, value);
            let ballot = poll.ballot;
            self.poll = Some(poll);
            return self.propose(ballot, value, setting, out);
        }
        self.round += 1;
        let ballot = Ballot {
            round: self.round,
            proposer: self.me.index() as u32,
            boot: self.boot,
        };
        self.poll = Some(Poll::new(ballot, setting.members));
        out.sent.push(Message::Prepare(ballot));
        if self.may_vote(setting, out)
            && let Ok(voted) = self.acceptor.promise(ballot)
        {
            let (voted, among) = (voted.copied(), self.among(setting));
            self.on_promise(ballot, self.life(), voted, among, setting, out);
        }
    }

    pub(super) fn on_message(&mut self, message: Message, setting: Setting, out: &mut Out) {
        match message {
            Message::Prepare(ballot) => self.on_prepare(ballot, setting, out),
            Message::Promise(ballot, from, boot, voted, among) => {
                self.on_promise(
                    ballot,
                    Life { peer: from, boot },
                    voted,
                    among,
                    setting,
                    out,
                );
            }
            Message::Propose(ballot, value) => self.on_propose(ballot, value, setting, out),
            Message::Vote(ballot, from, boot, among) => {
                self.on_vote(ballot, Life { peer: from, boot }, among, out);
            }
            Message::Introduce(from, boot) => self.on_introduce(from, boot, setting, out),
            Message::Known {
                boot,
                from,
                is_sure,
                is_touched,
                ..
            } => {
                if boot == self.boot {
                    let touched = is_touched.then(key).into_iter().collect();
                    self.lives.on_known(from, &LIST, is_sure, touched);
                }
            }
        }
    }

    /// Whether the member waits for answers in this ballot; with `is_for_promises`, for promises.
    pub(super) fn is_polling(&self, ballot: Ballot, is_for_promises: bool) -> bool {
        let poll = self.poll.as_ref().filter(|poll| poll.ballot == ballot);
        poll.is_some_and(|poll| poll.proposal().is_none() || !is_for_promises)
    }

    /// Whether `boot` is the member's present life, and this life still has to be introduced.
    pub(super) fn is_unsure(&self, boot: u64, setting: Setting) -> bool {
        self.boot == boot && !self.lives.is_sure(&LIST, setting.members)
    }

    const fn value(&self) -> u8 {
        self.me.index() as u8
    }

    fn among(&self, setting: Setting) -> Among {
        let everybody: Vec<Peer> = (0..setting.members).map(Peer::at).collect();
        self.lives.among(&everybody)
    }

    fn may_vote(&mut self, setting: Setting, out: &mut Out) -> bool {
        let is_sure = self.lives.is_sure(&LIST, setting.members);
        if is_sure || setting.flaw == Flaw::NotIntroduced {
            return self.lives.may_vote(&key());
        }
        let everybody: Vec<Peer> = (0..setting.members).map(Peer::at).collect();
        if self.lives.begin(LIST, &everybody, self.me) {
            out.sent.push(Message::Introduce(self.me, self.boot));
        }
        false
    }

    fn propose(&mut self, ballot: Ballot, value: u8, setting: Setting, out: &mut Out) {
        out.sent.push(Message::Propose(ballot, value));
        if self.may_vote(setting, out) && self.acceptor.vote(ballot, &value).is_ok() {
            let among = self.among(setting);
            self.on_vote(ballot, self.life(), among, out);
        }
    }

    fn on_prepare(&mut self, ballot: Ballot, setting: Setting, out: &mut Out) {
        self.round = self.round.max(ballot.round);
        if !self.may_vote(setting, out) {
            return;
        }
        self.record = self.record.and(Some(true));
        let among = self.among(setting);
        if let Ok(voted) = self.acceptor.promise(ballot) {
            let (me, boot, voted) = (self.me, self.boot, voted.copied());
            out.sent
                .push(Message::Promise(ballot, me, boot, voted, among));
        }
    }

    fn on_propose(&mut self, ballot: Ballot, value: u8, setting: Setting, out: &mut Out) {
        self.round = self.round.max(ballot.round);
        if !self.may_vote(setting, out) {
            return;
        }
        self.record = self.record.and(Some(true));
        if self.acceptor.vote(ballot, &value).is_ok() {
            let (me, boot, among) = (self.me, self.boot, self.among(setting));
            out.sent.push(Message::Vote(ballot, me, boot, among));
        }
    }

    fn on_promise(
        &mut self,
        ballot: Ballot,
        from: Life,
        voted: Option<(Ballot, u8)>,
        among: Among,
        setting: Setting,
        out: &mut Out,
    ) {
        let own = self.value();
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.ballot == ballot) else {
            return;
        };
        let voted = voted.filter(|_| setting.flaw != Flaw::OwnValue);
        poll.note_lives(among);
        if let Some(value) = poll.on_promise(from.peer.index() as u32, from.boot, voted, || own) {
            let value = *value;
            self.propose(ballot, value, setting, out);
        }
    }

    fn on_vote(&mut self, ballot: Ballot, from: Life, among: Among, out: &mut Out) {
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.ballot == ballot) else {
            return;
        };
        poll.note_lives(among);
        if poll.on_vote(from.peer.index() as u32, from.boot) {
            out.learnt = poll.proposal().copied();
            self.poll = None;
        }
    }

    fn on_introduce(&mut self, from: Peer, boot: u64, setting: Setting, out: &mut Out) {
        if !self.lives.meet(from, boot) {
            return;
        }
        let has_voted = !self.acceptor.is_untouched() || self.has_polled;
        out.sent.push(Message::Known {
            to: from,
            boot,
            from: self.me,
            is_sure: self.lives.is_sure(&LIST, setting.members),
            is_touched: has_voted || self.lives.floors().next().is_some(),
        });
    }
}

/// The key of the only operation.
fn key() -> Key {
    let name = std::sync::Arc::<str>::from("x").try_into();
    match name {
        Ok(name) => Key {
            name,
            generation: 1,
        },
        Err(error) => unreachable!("{error}"),
    }
}
