//! Which server embeds a passage: the one that wrote it, so that no two embed the same. What a server leaves that is gone, one of the
//! others embeds at a time: the one with a lock.

use std::sync::atomic::Ordering;

use super::partition::Partition;
use super::server::waiting;
use crate::store::StoreError;

/// What becomes of the passages without embedding that a server left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// There are none.
    Needless,
    /// This server embeds them.
    Begun,
    /// Another one does.
    Elsewhere,
}

impl Partition {
    /// True of the passages that this server embeds, as a condition on the collection's `passages`.
    pub(super) fn embeds(&self) -> String {
        match (self.server.member_id(), self.adopting.load(Ordering::SeqCst)) {
            (None, _) => "true".to_owned(),
            (Some(me), false) => format!("writer = {me}"),
            (Some(me), true) => format!("(writer = {me} or {})", self.orphaned()),
        }
    }

    fn orphaned(&self) -> String {
        format!("not exists (select 1 from dragoman.servers s where s.id = {}.writer)", self.names.passages)
    }

    /// Takes on the passages of servers that are gone, if there are any and no other server has.
    pub(super) fn adopt(&self) -> Result<Adoption, StoreError> {
        let Some(member) = self.server.member() else { return Ok(Adoption::Needless) };
        let there = self.read("looking for passages without embedding", |session| {
            let (passages, orphaned) = (&self.names.passages, self.orphaned());
            let sql = format!(
                "select count(*) from (select 1 from {passages} where embedded_sequence is null and {orphaned} limit 1) p"
            );
            session.number(&sql, &[])
        })?;
        if there == 0 {
            return Ok(Adoption::Needless);
        }
        if !waiting(|| member.lock(&self.adoption())) {
            return Ok(Adoption::Elsewhere);
        }
        self.adopting.store(true, Ordering::SeqCst);
        Ok(Adoption::Begun)
    }

    pub(super) fn end_adoption(&self) {
        let adopted = self.adopting.swap(false, Ordering::SeqCst);
        if let Some(member) = self.server.member().filter(|_| adopted) {
            waiting(|| member.unlock(&self.adoption()));
        }
    }

    /// The name of the lock.
    fn adoption(&self) -> String {
        format!("dragoman.passages_{}", self.key)
    }
}
