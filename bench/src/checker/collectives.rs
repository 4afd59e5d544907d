//! One decision of a few members, searched whole: the shipped voting of collective operations
//! ([`voting`](binomesh_routing::collective::voting),
//! [`lives`](binomesh_routing::collective::lives)), with every order of messages.
//!
//! A message stays under way for ever, and its receivers may receive it at any time. So messages
//! are reordered and repeated, and are lost if no member receives them. A member without further
//! steps has crashed. A member that is started again has forgotten all but its record, or the
//! record too. Any member may begin a ballot at any time, within the number of ballots.
//!
//! One property, *agreement*: all decisions that members learn, in any of their lives, are equal.
//!
//! Not here: arrivals and proposals made of them, as each member proposes its number. Back-off and
//! repeated questions change nothing, since a member may be as slow as it likes here. Outcomes are
//! not sent, as each is what a proposer learnt. Members that know the outcome still answer here,
//! which only adds possibilities.
//!
//! Messages that cannot change anything any more are left out, so that fewer states differ. Among
//! them are questions for promises that no member counts any more: they would only keep their
//! receivers from voting.

mod member;

use stateright::{Model, Property};

use super::Peer;
use super::search::{Judged, Path, Searched};
use member::{Member, Message, Out};

/// The parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setting {
    /// How many members are listed.
    pub members: usize,
    /// The most ballots that are begun, in all lives together.
    pub ballots: u8,
    /// The most times that a member is started again with its record.
    pub restarts: u8,
    /// The most times that a member is started again without its record.
    pub losses: u8,
    /// The flaw that is built into the members.
    pub flaw: Flaw,
}

/// A flaw in the protocol, which the search must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flaw {
    /// No flaw: the protocol as shipped.
    #[default]
    None,
    /// A member that is started again takes its life for its first one.
    NoRecord,
    /// A life without a record begins a new one, and the next life takes it for the whole record.
    NewRecord,
    /// A member that has lost its record votes before others know its new life.
    NotIntroduced,
    /// A proposer proposes its own value, whatever the promises name.
    OwnValue,
}

/// The members, the messages that were sent, and the decisions that were learnt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    members: Vec<Member>,
    /// The messages that were sent and still matter, sorted, each once.
    sent: Vec<Message>,
    /// The decisions that were learnt, sorted, each once.
    learnt: Vec<u8>,
    ballots: u8,
    restarts: u8,
    losses: u8,
}

/// A step of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A member begins a ballot.
    Begin(Peer),
    /// A message arrives at a member.
    Receive(Peer, Message),
    /// A member is started again with its record.
    Restart(Peer),
    /// A member is started again without its record.
    Lose(Peer),
}

/// A world to search.
#[derive(Debug)]
pub struct World {
    setting: Setting,
    judged: Judged,
}

const AGREEMENT: &str = "agreement";

impl World {
    /// A world with this setting. The search stops when `state_limit` states are judged.
    pub const fn new(setting: Setting, state_limit: usize) -> Self {
        Self {
            setting,
            judged: Judged::up_to(state_limit),
        }
    }

    fn all(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.setting.members).map(Peer::at)
    }

    /// Whether a message must stay under way: it can still change a member, now or after a restart.
    /// A question for promises that its proposer does not count any more need not stay.
    fn matters(&self, state: &State, message: &Message) -> bool {
        let changes = |me: Peer| {
            let member = &state.members[me.index()];
            let mut after = member.clone();
            after.on_message(message.clone(), self.setting, &mut Out::default());
            after != *member
        };
        let changes_any = || self.all().any(|me| message.is_for(me) && changes(me));
        let may_restart =
            state.restarts < self.setting.restarts || state.losses < self.setting.losses;
        let member = |place: u32| &state.members[place as usize];
        match message {
            Message::Prepare(ballot) => {
                member(ballot.proposer).is_polling(*ballot, true) && (may_restart || changes_any())
            }
            Message::Introduce(from, boot) => {
                state.members[from.index()].is_unsure(*boot, self.setting) || changes_any()
            }
            Message::Propose(..) => may_restart || changes_any(),
            Message::Promise(ballot, ..) => {
                member(ballot.proposer).is_polling(*ballot, true) && changes_any()
            }
            Message::Vote(..) | Message::Known { .. } => changes_any(),
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            members: self.all().map(Member::new).collect(),
            sent: Vec::new(),
            learnt: Vec::new(),
            ballots: 0,
            restarts: 0,
            losses: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if self.judged.is_full() {
            return;
        }
        for me in self.all() {
            let is_meant = |message: &&Message| message.is_for(me);
            let sent = state.sent.iter().filter(is_meant).cloned();
            actions.extend(sent.map(|message| Step::Receive(me, message)));
            if state.ballots < self.setting.ballots {
                actions.push(Step::Begin(me));
            }
            if state.restarts < self.setting.restarts {
                actions.push(Step::Restart(me));
            }
            if state.losses < self.setting.losses {
                actions.push(Step::Lose(me));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let (Step::Begin(me) | Step::Receive(me, _) | Step::Restart(me) | Step::Lose(me)) = step;
        let member = next.members.get_mut(me.index())?;
        let (setting, mut out) = (self.setting, Out::default());
        match step {
            Step::Begin(_) => {
                next.ballots += 1;
                member.begin(setting, &mut out);
            }
            Step::Receive(_, message) => member.on_message(message, setting, &mut out),
            Step::Restart(_) => {
                next.restarts += 1;
                member.restart(true, setting);
            }
            Step::Lose(_) => {
                next.losses += 1;
                member.restart(false, setting);
            }
        }
        next.learnt.extend(out.learnt);
        next.learnt.sort_unstable();
        next.learnt.dedup();
        let mut sent = std::mem::take(&mut next.sent);
        sent.extend(out.sent);
        sent.sort_unstable();
        sent.dedup();
        sent.retain(|message| self.matters(&next, message));
        next.sent = sent;
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            AGREEMENT,
            |world: &Self, state: &State| world.judged.next().is_none() || state.learnt.len() <= 1,
        )]
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.judged.is_full()
    }
}

impl Searched for World {
    type Facts = ();

    const PROPERTIES: &'static [&'static str] = &[AGREEMENT];

    fn judged(&self) -> &Judged {
        &self.judged
    }

    fn facts(&self) {}

    fn script(&self, property: &str, path: Path<Self>) -> String {
        let mut script = format!("{property} fails:\n");
        for (number, (state, step)) in path.iter().enumerate() {
            match step {
                Some(step) => script += &format!("  step {:<3} {step:?}\n", number + 1),
                None => script += &format!("  then {:?} are decided\n", state.learnt),
            }
        }
        script
    }
}
