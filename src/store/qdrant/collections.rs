//! Collections: made, served, looked for, dropped.

use std::sync::PoisonError;

use qdrant_client::qdrant::{CollectionInfo, CreateAliasBuilder, DeleteCollection};

use super::error::Refusal;
use super::names::tenant_hash;
use super::{Isolation, Qdrant, schema};
use crate::store::StoreError;

/// What the errors below name a generation that is not there by.
pub(super) fn missing(generation: &str) -> StoreError {
    StoreError::Unusable(format!(
        "the Qdrant server has no collection of the generation {generation}: it was dropped, or never made; \
         `backstory doctor --reindex` makes it anew from the records"
    ))
}

impl Qdrant {
    /// Makes the collection of a generation, or looks whether the one that is there will do.
    pub(super) async fn prepare_generation(&self, generation: &str, dimension: u32) -> Result<(), StoreError> {
        self.forget(generation);
        self.ensure(&self.names.generation(generation), generation, dimension).await?;
        self.remember(generation, dimension);
        Ok(())
    }

    /// Makes a collection where there is none, with all its indexes. Several may do so at once: what one made is as good as what another would.
    pub(super) async fn ensure(&self, name: &str, generation: &str, dimension: u32) -> Result<(), StoreError> {
        let doing = "make a collection";
        let info = match self.info(name).await? {
            Some(info) => info,
            None => {
                let create = schema::collection(name, generation, dimension, &self.options);
                match self.try_call(doing, self.client.create_collection(create)).await {
                    Ok(_) | Err(Refusal::Exists) => {}
                    Err(refusal) => return Err(refusal.into_error(doing, &self.options.url)),
                }
                self.info(name).await?.ok_or_else(|| missing(generation))?
            }
        };
        if let Some(problem) = schema::problem(&info, generation, dimension, &self.options) {
            return Err(StoreError::Unusable(format!(
                "the collection {name} of the generation {generation} in Qdrant will not do: {problem}; \
                 drop it, or set vectors.collection_prefix to another name, and run `backstory doctor --reindex`"
            )));
        }
        for index in schema::missing_indexes(name, &info) {
            self.call("make an index", self.client.create_field_index(index)).await?;
        }
        Ok(())
    }

    /// Lets the alias stand for a generation; one that is there is moved in one step.
    pub(super) async fn point_alias_at(&self, generation: &str) -> Result<(), StoreError> {
        let alias = CreateAliasBuilder::new(self.names.generation(generation), self.names.alias());
        let doing = "move an alias";
        self.try_call(doing, self.client.create_alias(alias)).await.map_err(|refusal| match refusal {
            Refusal::Missing => missing(generation),
            other => other.into_error(doing, &self.options.url),
        })?;
        Ok(())
    }

    /// Drops the collections of a generation: its tenants' first, so that what is left of it after a failure can be dropped again.
    pub(super) async fn drop_collections(&self, generation: &str) -> Result<(), StoreError> {
        self.forget(generation);
        let whole = self.names.generation(generation);
        for name in self.of_generation(generation).await?.into_iter().chain([whole]) {
            let doing = "drop a collection";
            let request = DeleteCollection { collection_name: name, ..DeleteCollection::default() };
            match self.try_call(doing, self.client.delete_collection(request)).await {
                Ok(_) | Err(Refusal::Missing) => {}
                Err(refusal) => return Err(refusal.into_error(doing, &self.options.url)),
            }
        }
        Ok(())
    }

    /// The collection that points of a tenant lie in.
    pub(super) fn home(&self, generation: &str, tenant: &str) -> String {
        match self.options.isolation {
            Isolation::Payload => self.names.generation(generation),
            Isolation::Collection => self.names.tenant(generation, tenant),
        }
    }

    /// All collections that may hold points of a tenant: of every generation, and however tenants were kept apart when they were made.
    pub(super) async fn of_tenant(&self, tenant: &str) -> Result<Vec<String>, StoreError> {
        let own = tenant_hash(tenant);
        let names = self.all().await?.into_iter();
        let may_hold = |name: &str| self.names.read(name).is_some_and(|read| read.tenant.is_none_or(|t| t == own));
        Ok(names.filter(|name| may_hold(name)).collect())
    }

    /// The collections of a generation's tenants.
    pub(super) async fn of_generation(&self, generation: &str) -> Result<Vec<String>, StoreError> {
        let whole = self.names.generation(generation);
        let names = self.all().await?.into_iter();
        Ok(names.filter(|name| *name != whole && self.names.read(name).is_some() && name.starts_with(&whole)).collect())
    }

    async fn all(&self) -> Result<Vec<String>, StoreError> {
        let list = self.call("list collections", self.client.list_collections()).await?;
        Ok(list.collections.into_iter().map(|collection| collection.name).collect())
    }

    async fn info(&self, name: &str) -> Result<Option<CollectionInfo>, StoreError> {
        let doing = "describe a collection";
        match self.try_call(doing, self.client.collection_info(name.to_owned())).await {
            Ok(response) => Ok(response.result),
            Err(Refusal::Missing) => Ok(None),
            Err(refusal) => Err(refusal.into_error(doing, &self.options.url)),
        }
    }

    /// The dimension of a generation: asked of the server once.
    pub(super) async fn dimension(&self, generation: &str) -> Result<u32, StoreError> {
        if let Some(known) = self.dimensions.lock().unwrap_or_else(PoisonError::into_inner).get(generation) {
            return Ok(*known);
        }
        let info = self.info(&self.names.generation(generation)).await?.ok_or_else(|| missing(generation))?;
        let dimension = schema::dimension(&info);
        self.remember(generation, dimension);
        Ok(dimension)
    }

    /// Looks whether vectors are of a generation, so that one of another is refused before anything is done with it.
    pub(super) async fn check(
        &self,
        generation: &str,
        mut vectors: impl Iterator<Item = &[f32]> + Send,
    ) -> Result<u32, StoreError> {
        let dimension = self.dimension(generation).await?;
        let Some(other) = vectors.find(|vector| vector.len() != dimension as usize) else { return Ok(dimension) };
        self.forget(generation);
        Err(StoreError::Unusable(format!(
            "a vector of {} numbers is none of the generation {generation}, which has dimension {dimension}",
            other.len()
        )))
    }

    fn remember(&self, generation: &str, dimension: u32) {
        self.dimensions.lock().unwrap_or_else(PoisonError::into_inner).insert(generation.to_owned(), dimension);
    }

    /// Forgets what was known of a generation: it has changed, or someone else may have changed it.
    pub(super) fn forget(&self, generation: &str) {
        self.dimensions.lock().unwrap_or_else(PoisonError::into_inner).remove(generation);
    }
}
