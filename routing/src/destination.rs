//! The members that a message is for.

/// The members that a message is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Destination<I> {
    /// Every member but the origin, in the epoch in which the message is issued. A broadcast is
    /// issued in the newest epoch once the roster of that epoch is complete, so that later epochs
    /// can find each member by name. The wait for that roster is at most
    /// [`Config::roster_wait`](crate::Config::roster_wait). An epoch with more than
    /// [`Config::roster_max`](crate::Config::roster_max) members has no roster, and a broadcast in
    /// it does not wait.
    All,
    /// Every member but these. The message does not wait for the listed members, and its receipt
    /// has no line for them. They keep their places in the order: a listed member that is up gets
    /// the message and passes it on. At most [`Config::roster_max`](crate::Config::roster_max)
    /// listed members count; for a further one the message waits as for any member.
    AllBut(Vec<I>),
    /// These members alone, by name. Another peer that holds the rank of one of them does not take
    /// the message in its place. Duplicates count once.
    Peers(Vec<I>),
}

impl<I> Destination<I> {
    /// Whether the message goes to all members, or all but some.
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All | Self::AllBut(_))
    }
}
