//! Long values: fetched piece by piece, held, and passed on.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};

use super::message::Item;
use super::terms::PIECE_BYTES;

/// How many pieces of a value are kept that have come before an earlier piece. Full: further pieces
/// are dropped, and asked for again.
const MAX_AHEAD: usize = 64;

/// A value that is being fetched, or is complete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stored {
    Whole(Bytes),
    Partial(Partial),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Partial {
    /// The length of the whole value, once a piece has told it.
    size: Option<u64>,
    /// The beginning of the value, without a gap.
    front: BytesMut,
    /// Pieces behind a gap, by their first byte.
    ahead: BTreeMap<u64, Bytes>,
    /// How often the value was asked for.
    tries: u32,
    /// The members that were asked for it. Only their pieces count.
    asked: BTreeSet<u32>,
    /// The member that was asked last.
    asked_last: Option<u32>,
    /// Whether a size that the member `asked_last` named has made the fetch start again since it
    /// was asked.
    has_restarted: bool,
    /// The length of `front` at the last call of [`Storage::has_grown`]; 0 before the first call
    /// since the fetch began or began again.
    seen: usize,
}

impl Partial {
    /// Drop all pieces. Pieces of members that were asked before do not count any more.
    fn start_again(&mut self) {
        self.asked.clear();
        self.size = None;
        self.front = BytesMut::new();
        self.ahead.clear();
        self.seen = 0;
    }
}

/// What a piece has made of a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The value is not complete yet, or the piece does not count.
    Nothing,
    /// The value is complete.
    Whole(Bytes),
    /// The sender has to be asked again, from the first byte on.
    Restart,
}

/// A piece of a value.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// The length of the whole value, as the sender has it.
    pub(super) size: u64,
    /// The place of the piece's first byte in the value.
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
}

/// The long values of one operation at one member, complete or in part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Storage {
    items: BTreeMap<Item, Stored>,
}

impl Storage {
    /// The whole value, if it is complete here.
    pub(super) fn get(&self, item: Item) -> Option<&Bytes> {
        match self.items.get(&item)? {
            Stored::Whole(bytes) => Some(bytes),
            Stored::Partial(_) => None,
        }
    }

    pub(super) fn has(&self, item: Item) -> bool {
        self.get(item).is_some()
    }

    pub(super) fn put(&mut self, item: Item, bytes: Bytes) {
        self.items.insert(item, Stored::Whole(bytes));
    }

    /// Note that a value is to be asked for. Returns the first missing byte and the number of
    /// earlier tries; none if the value is complete. [`Storage::ask_at`] follows.
    pub(super) fn ask(&mut self, item: Item) -> Option<(u64, u32)> {
        let new = || Stored::Partial(Partial::default());
        match self.items.entry(item).or_insert_with(new) {
            Stored::Whole(_) => None,
            Stored::Partial(partial) => {
                partial.tries += 1;
                Some((partial.front.len() as u64, partial.tries - 1))
            }
        }
    }

    /// The value is asked for at the member `source`.
    pub(super) fn ask_at(&mut self, item: Item, source: u32) {
        if let Some(Stored::Partial(partial)) = self.items.get_mut(&item) {
            partial.asked.insert(source);
            partial.asked_last = Some(source);
            partial.has_restarted = false;
        }
    }

    /// Whether the value was asked for or is complete.
    pub(super) fn is_asked(&self, item: Item) -> bool {
        self.items.contains_key(&item)
    }

    /// Whether the beginning of the value has grown since the last call. Pieces behind a gap do not
    /// count. False if the value is complete.
    pub(super) fn has_grown(&mut self, item: Item) -> bool {
        let Some(Stored::Partial(partial)) = self.items.get_mut(&item) else {
            return false;
        };
        let seen = std::mem::replace(&mut partial.seen, partial.front.len());
        partial.front.len() > seen
    }

    /// The values that were asked for and are incomplete.
    pub(super) fn missing(&self) -> Vec<Item> {
        let partial = self.items.iter();
        let partial = partial.filter(|(_, stored)| matches!(stored, Stored::Partial(_)));
        partial.map(|(item, _)| *item).collect()
    }

    /// Take in a piece from the member `source`. A whole value is kept only by [`Storage::put`].
    ///
    /// If members name different sizes, the member that was asked last is believed, and the value
    /// is fetched again from the beginning, once in its turn. So a member that lies spoils no more
    /// than its own turn.
    pub(super) fn take(&mut self, source: u32, item: Item, piece: Piece) -> Taken {
        self.take_in(source, item, piece).unwrap_or(Taken::Nothing)
    }

    fn take_in(&mut self, source: u32, item: Item, piece: Piece) -> Option<Taken> {
        let Piece {
            size,
            offset,
            bytes,
        } = piece;
        let Some(Stored::Partial(partial)) = self.items.get_mut(&item) else {
            return None;
        };
        let end = offset.checked_add(bytes.len() as u64)?;
        if end > size || !partial.asked.contains(&source) {
            return None;
        }
        if *partial.size.get_or_insert(size) != size {
            if partial.asked_last != Some(source) || partial.has_restarted {
                return None;
            }
            partial.start_again();
            partial.asked.insert(source);
            partial.has_restarted = true;
            if offset > 0 {
                // The member was asked only for the rest behind the bytes of another one.
                return Some(Taken::Restart);
            }
            partial.size = Some(size);
        }
        let is_next = offset <= partial.front.len() as u64;
        if is_next || partial.ahead.len() < MAX_AHEAD {
            partial.ahead.insert(offset, bytes);
        }
        while let Some((&offset, _)) = partial.ahead.first_key_value() {
            let have = partial.front.len() as u64;
            if offset > have {
                break;
            }
            if let Some(bytes) = partial.ahead.remove(&offset) {
                let known = (have - offset) as usize;
                partial
                    .front
                    .extend_from_slice(bytes.get(known..).unwrap_or_default());
            }
        }
        let is_whole = partial.front.len() as u64 == size;
        is_whole.then(|| Taken::Whole(std::mem::take(&mut partial.front).freeze()))
    }

    /// The bytes were not the expected value: fetch it again from the beginning.
    pub(super) fn reject(&mut self, item: Item) {
        if let Some(Stored::Partial(partial)) = self.items.get_mut(&item) {
            partial.start_again();
        }
    }

    /// How many bytes all values hold.
    pub(super) fn bytes(&self) -> usize {
        let held = self.items.values().map(|stored| match stored {
            Stored::Whole(bytes) => bytes.len(),
            Stored::Partial(partial) => {
                partial.front.len() + partial.ahead.values().map(Bytes::len).sum::<usize>()
            }
        });
        held.sum()
    }
}

/// Offset and content of each piece of `whole` from a byte on; at least one.
pub(super) fn pieces(whole: &Bytes, from: u64) -> impl Iterator<Item = (u64, Bytes)> + '_ {
    let from = (from.min(whole.len() as u64)) as usize;
    let starts = (from..whole.len()).step_by(PIECE_BYTES);
    let alone = (from == whole.len()).then_some(from);
    starts.chain(alone).map(|start| {
        let end = whole.len().min(start + PIECE_BYTES);
        (start as u64, whole.slice(start..end))
    })
}

/// One value made of a part for each member, by place.
pub fn join_parts(parts: &BTreeMap<u32, Bytes>) -> Bytes {
    postcard::to_stdvec(parts).unwrap_or_default().into()
}

/// The part for the member at this place in a value; empty if there is none.
pub(super) fn part_of(value: &Bytes, member: u32) -> Bytes {
    let parts: Result<BTreeMap<u32, Bytes>, _> = postcard::from_bytes(value);
    parts
        .ok()
        .and_then(|mut parts| parts.remove(&member))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_put_together_in_any_order_of_its_pieces() {
        let whole: Bytes = (0..3 * PIECE_BYTES + 5).map(|i| (i % 251) as u8).collect();
        let all: Vec<(u64, Bytes)> = pieces(&whole, 0).collect();
        assert_eq!(all.len(), 4);
        let item = Item::Whole(3);
        let mut storage = Storage::default();
        assert_eq!(storage.ask(item), Some((0, 0)));
        storage.ask_at(item, 1);
        let piece = |place: usize| {
            let (offset, bytes) = all[place].clone();
            let size = whole.len() as u64;
            Piece {
                size,
                offset,
                bytes,
            }
        };
        for place in [2, 0, 3, 0] {
            assert_eq!(storage.take(1, item, piece(place)), Taken::Nothing);
        }
        assert_eq!(storage.ask(item), Some((PIECE_BYTES as u64, 1)));
        assert_eq!(storage.take(1, item, piece(1)), Taken::Whole(whole.clone()));
    }

    fn piece(size: u64, offset: u64, bytes: &'static [u8]) -> Piece {
        let bytes = Bytes::from_static(bytes);
        Piece {
            size,
            offset,
            bytes,
        }
    }

    #[test]
    fn pieces_that_contradict_themselves_or_were_not_asked_for_are_dropped() {
        let item = Item::Combined;
        let mut storage = Storage::default();
        assert_eq!(storage.take(1, item, piece(0, 0, b"")), Taken::Nothing);
        storage.ask(item);
        assert_eq!(
            storage.take(1, item, piece(1, 0, b"x")),
            Taken::Nothing,
            "not asked"
        );
        storage.ask_at(item, 1);
        assert_eq!(storage.take(1, item, piece(2, 0, b"abc")), Taken::Nothing);
        assert_eq!(storage.take(1, item, piece(2, 0, b"a")), Taken::Nothing);
        assert_eq!(
            storage.take(2, item, piece(2, 1, b"x")),
            Taken::Nothing,
            "not asked"
        );
        let whole = storage.take(1, item, piece(2, 1, b"b"));
        assert_eq!(whole, Taken::Whole(Bytes::from_static(b"ab")));
    }

    /// Each member answers with all pieces from the byte on that it is asked for.
    #[test]
    fn a_false_size_spoils_only_the_turn_of_its_sender() {
        let item = Item::Part { of: 3, to: 0 };
        for front in [b"x".as_slice(), b"longer than the value"] {
            let mut storage = Storage::default();
            let (from, _) = storage.ask(item).unwrap();
            storage.ask_at(item, 1);
            let lie = piece(100, from, front);
            assert_eq!(storage.take(1, item, lie.clone()), Taken::Nothing);
            let (from, _) = storage.ask(item).unwrap();
            assert_eq!(from, front.len() as u64);
            storage.ask_at(item, 2);
            let whole = Bytes::from_static(b"value");
            let answer = |from| {
                let mut pieces = pieces(&whole, from);
                let (offset, bytes) = pieces.next().unwrap();
                let size = whole.len() as u64;
                Piece {
                    size,
                    offset,
                    bytes,
                }
            };
            assert_eq!(storage.take(2, item, answer(from)), Taken::Restart);
            assert_eq!(storage.take(1, item, lie), Taken::Nothing, "late");
            assert_eq!(storage.take(2, item, answer(0)), Taken::Whole(whole));
        }
    }

    #[test]
    fn a_member_that_names_one_size_after_the_other_restarts_the_fetch_once_in_its_turn() {
        let item = Item::Combined;
        let mut storage = Storage::default();
        storage.ask(item);
        storage.ask_at(item, 1);
        assert_eq!(storage.take(1, item, piece(9, 0, b"x")), Taken::Nothing);
        assert_eq!(storage.take(1, item, piece(8, 1, b"x")), Taken::Restart);
        assert_eq!(storage.take(1, item, piece(7, 0, b"x")), Taken::Nothing);
        assert_eq!(storage.take(1, item, piece(6, 1, b"x")), Taken::Nothing);
    }

    #[test]
    fn an_empty_value_is_one_piece() {
        assert_eq!(pieces(&Bytes::new(), 0).count(), 1);
    }

    #[test]
    fn parts_are_found_again() {
        let parts = BTreeMap::from([(0, Bytes::from_static(b"x")), (7, Bytes::new())]);
        let value = join_parts(&parts);
        assert_eq!(part_of(&value, 0), "x");
        assert_eq!(part_of(&value, 1), "");
        assert_eq!(part_of(&Bytes::from_static(b"\xff"), 0), "");
    }
}
