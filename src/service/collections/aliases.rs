//! Aliases of collections. An alias works wherever a collection's name does, except to delete the collection.

use std::ops::Bound;

use crate::domain::{Alias, Caller, CollectionName, Page};
use crate::service::error::Error;
use crate::service::state::{Service, State};
use crate::storage::CatalogPart;
use crate::store::StoreError;

impl Service {
    /// Lists the aliases that the caller may access, by name. Also returns the last name on the page if there is a next page.
    pub async fn list_aliases(
        &self,
        page: Page<CollectionName>,
        caller: &Caller,
    ) -> Result<(Vec<Alias>, Option<CollectionName>), Error> {
        let aliases = self.state.aliases.read();
        let after = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let alias =
            |(name, collection): (&CollectionName, &CollectionName)| Alias { name: name.clone(), collection: collection.clone() };
        let rest = aliases.range((after, Bound::Unbounded)).filter(|(name, _)| caller.may_access(name));
        Ok(page.take(rest.map(alias), |alias| &alias.name))
    }

    /// Makes a name an alias of a collection. An existing alias switches atomically: each request finds either the old
    /// collection or the new one.
    pub async fn set_alias(&self, alias: Alias) -> Result<Alias, Error> {
        self.change_names(move |state| state.set_alias(&alias).map(|()| alias.clone())).await
    }

    pub async fn delete_alias(&self, name: &CollectionName) -> Result<(), Error> {
        let name = name.clone();
        let delete = move |state: &State| {
            if !state.catalog.delete_alias(&name)? {
                return Err(Error::AliasNotFound { name: name.clone() });
            }
            state.aliases.write().remove(&name);
            Ok(())
        };
        self.change_names(delete).await
    }

    /// Returns up to `size` aliases that a restricted key may access, by name; none for other callers.
    pub(super) fn aliases_of_restricted(
        &self,
        caller: &Caller,
        after: Bound<CollectionName>,
        size: usize,
    ) -> Vec<CollectionName> {
        if caller.collections().is_none() {
            return Vec::new();
        }
        let aliases = self.state.aliases.read();
        let rest = aliases.range((after, Bound::Unbounded)).filter(|(name, _)| caller.may_access(name));
        rest.map(|(name, _)| name.clone()).take(size).collect()
    }

    /// Whether the caller may access the collection whose own name this is, by that name or by an alias that leads to it.
    pub fn may_access_collection(&self, caller: &Caller, collection: &CollectionName) -> bool {
        if caller.may_access(collection) {
            return true;
        }
        let aliases = self.state.aliases.read();
        caller.collections().is_some_and(|names| names.iter().any(|name| aliases.get(name) == Some(collection)))
    }

    /// Runs a change of names while no other change of names runs.
    async fn change_names<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&State) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.check_running()?;
        self.state.with_names_locked(move |state| state.change_catalog(CatalogPart::Names, || change(state))).await
    }
}

impl State {
    /// Returns the collection's own name if `name` is an alias.
    pub(crate) fn resolve_alias(&self, name: &CollectionName) -> Option<CollectionName> {
        self.aliases.read().get(name).cloned()
    }

    fn set_alias(&self, alias: &Alias) -> Result<(), Error> {
        self.check_emergency_space()?;
        let id = self.collections.read().get(&alias.collection).map(|entry| entry.row().id.clone());
        let id = id.ok_or_else(|| {
            let name = alias.collection.clone();
            match self.resolve_alias(&name) {
                Some(collection) => Error::AliasOfAlias { name, collection },
                None => Error::CollectionNotFound { name },
            }
        })?;
        {
            let aliases = self.aliases.read();
            let limit = self.limits.collections_max;
            if aliases.len() >= limit && !aliases.contains_key(&alias.name) {
                return Err(Error::TooManyAliases { limit });
            }
        }
        self.catalog.set_alias(&alias.name, &id).map_err(|error| match error {
            StoreError::CollectionExists { name } => Error::CollectionExists { name },
            other => other.into(),
        })?;
        self.aliases.write().insert(alias.name.clone(), alias.collection.clone());
        Ok(())
    }
}
