//! Lets callers start their waiting jobs in turn, so that the many jobs of one do not delay the few of another.

use crate::domain::QuotaOwner;

#[derive(Default)]
pub(super) struct Turns {
    /// Callers with waiting jobs that have had a turn, least recently first.
    recent: Vec<QuotaOwner>,
}

impl Turns {
    /// Returns which of the waiting jobs starts next, given their callers: the first job of the caller whose last turn is the
    /// longest ago.
    pub(super) fn next(&mut self, waiting: &[&QuotaOwner]) -> Option<usize> {
        let last_turn = |owner: &QuotaOwner| self.recent.iter().position(|recent| recent == owner);
        let (next, owner) = waiting.iter().enumerate().min_by_key(|(_, owner)| last_turn(owner))?;
        self.recent.retain(|recent| recent != *owner && waiting.contains(&recent));
        self.recent.push((*owner).clone());
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    /// Returns the jobs of these callers, by their numbers, in the order in which they start.
    fn order(callers: &[u8]) -> Vec<usize> {
        let owner = |number: &u8| QuotaOwner::for_address(Some(IpAddr::from([192, 0, 2, *number])));
        let (mut turns, mut waiting) = (Turns::default(), callers.iter().map(owner).enumerate().collect::<Vec<_>>());
        let mut order = Vec::new();
        while let Some(next) = turns.next(&waiting.iter().map(|(_, owner)| owner).collect::<Vec<_>>()) {
            order.push(waiting.remove(next).0);
        }
        order
    }

    #[test]
    fn callers_take_turns_and_each_ones_jobs_keep_their_order() {
        assert_eq!(order(&[]), [0; 0]);
        assert_eq!(order(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(order(&[1, 1, 1, 2, 3, 3]), [0, 3, 4, 1, 5, 2]);
    }
}
