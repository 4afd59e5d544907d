//! A set of small numbers from which one can be drawn in constant time.

/// Some of the numbers below a limit.
pub(super) struct Bag {
    members: Vec<u32>,
    /// For each number its place among the members, counted from 1, or 0 if it is no member.
    places: Vec<u32>,
}

impl Bag {
    /// An empty bag for numbers below `most`.
    pub(super) fn new(most: usize) -> Self {
        Self {
            members: Vec::new(),
            places: vec![0; most],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The member at a place. Places change when the bag does.
    pub(super) fn get(&self, place: usize) -> Option<usize> {
        self.members.get(place).map(|member| *member as usize)
    }

    pub(super) fn insert(&mut self, member: usize) {
        if self.places[member] == 0 {
            self.members.push(member as u32);
            self.places[member] = self.members.len() as u32;
        }
    }

    pub(super) fn remove(&mut self, member: usize) {
        let place = std::mem::take(&mut self.places[member]) as usize;
        if place > 0 {
            self.members.swap_remove(place - 1);
            if let Some(moved) = self.members.get(place - 1) {
                self.places[*moved as usize] = place as u32;
            }
        }
    }
}
