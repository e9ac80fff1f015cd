//! Decides which server embeds a passage: the one that wrote it, so that no two servers embed the same passage. Passages that a
//! dead server left are embedded by one other server at a time: the one that holds a lock.

use std::sync::atomic::Ordering;

use super::partition::Postgres;
use super::server::run_blocking;
use crate::store::StoreError;

/// Who embeds the passages that dead servers left without an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adoption {
    /// Nobody, because there are none.
    Nobody,
    ThisServer,
    OtherServer,
}

impl Postgres {
    /// Returns the condition on the collection's `passages` that this server embeds a passage.
    pub(super) fn own_passages_condition(&self) -> String {
        match (self.server.member_id(), self.adopting.load(Ordering::SeqCst)) {
            (None, _) => "true".to_owned(),
            (Some(me), false) => format!("writer = {me}"),
            (Some(me), true) => format!("(writer = {me} or {})", self.orphaned_condition()),
        }
    }

    fn orphaned_condition(&self) -> String {
        format!("not exists (select 1 from dragoman.servers s where s.id = {}.writer)", self.names.passages)
    }

    /// Checks whether a dead server left passages without an embedding. If so, and if no other server embeds them, `pending`
    /// includes them from now on until `release_orphans`.
    pub fn adopt_orphans(&self) -> Result<Adoption, StoreError> {
        let Some(member) = self.server.member() else { return Ok(Adoption::Nobody) };
        let there = self.run("looking for passages without embedding", |session| {
            let (passages, orphaned) = (&self.names.passages, self.orphaned_condition());
            let sql = format!(
                "select count(*) from (select 1 from {passages} where embedded_sequence is null and {orphaned} limit 1) p"
            );
            session.query_number(&sql, &[])
        })?;
        if there == 0 {
            return Ok(Adoption::Nobody);
        }
        if !run_blocking(|| member.lock(&self.adoption_lock())) {
            return Ok(Adoption::OtherServer);
        }
        self.adopting.store(true, Ordering::SeqCst);
        Ok(Adoption::ThisServer)
    }

    /// Leaves the remaining passages of dead servers to others.
    pub fn release_orphans(&self) {
        let adopted = self.adopting.swap(false, Ordering::SeqCst);
        if let Some(member) = self.server.member().filter(|_| adopted) {
            run_blocking(|| member.unlock(&self.adoption_lock()));
        }
    }

    fn adoption_lock(&self) -> String {
        format!("dragoman.passages_{}", self.key)
    }
}
