//! Qdrant's service of collections.

use std::sync::Arc;
use std::time::Instant;

use qdrant_client::qdrant::alias_operations::Action;
use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::{
    ChangeAliases, CollectionDescription, CollectionExists, CollectionExistsRequest, CollectionExistsResponse,
    CollectionOperationResponse, CreateCollection, DeleteCollection, GetCollectionInfoRequest,
    GetCollectionInfoResponse, ListAliasesRequest, ListAliasesResponse, ListCollectionAliasesRequest,
    ListCollectionsRequest, ListCollectionsResponse, UpdateCollection,
};
use tonic::{Request, Response, Status};

use crate::config;
use crate::points::blocking;
use crate::refuse::{refused, unsupported, wrong};
use crate::shelf::{Change, Shelf};

/// The service.
pub(crate) struct Service(pub(crate) Arc<Shelf>);

type Reply<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Collections for Service {
    async fn get(&self, request: Request<GetCollectionInfoRequest>) -> Reply<GetCollectionInfoResponse> {
        let started = Instant::now();
        let collection = self.0.get(&request.into_inner().collection_name).map_err(|refused| *refused)?;
        let result = Some(config::info(&collection));
        Ok(Response::new(GetCollectionInfoResponse { result, time: started.elapsed().as_secs_f64() }))
    }

    async fn list(&self, _: Request<ListCollectionsRequest>) -> Reply<ListCollectionsResponse> {
        let collections = self.0.names().into_iter().map(|name| CollectionDescription { name }).collect();
        Ok(Response::new(ListCollectionsResponse { collections, time: 0.0 }))
    }

    async fn create(&self, request: Request<CreateCollection>) -> Reply<CollectionOperationResponse> {
        let shelf = Arc::clone(&self.0);
        blocking(move || shelf.create(request.into_inner())).await?;
        done(true)
    }

    /// Optimises segments and waits for it, as Qdrant's server waits; settings are not changed.
    async fn update(&self, request: Request<UpdateCollection>) -> Reply<CollectionOperationResponse> {
        let request = request.into_inner();
        let plain = UpdateCollection {
            collection_name: request.collection_name.clone(),
            optimizers_config: Some(Default::default()),
            ..Default::default()
        };
        if request != plain {
            return Err(*unsupported("changing the settings of a collection"));
        }
        let collection = self.0.get(&request.collection_name).map_err(|refused| *refused)?;
        blocking(move || collection.optimize()).await?;
        done(true)
    }

    async fn delete(&self, request: Request<DeleteCollection>) -> Reply<CollectionOperationResponse> {
        let shelf = Arc::clone(&self.0);
        done(blocking(move || shelf.delete(&request.into_inner().collection_name)).await?)
    }

    async fn update_aliases(&self, request: Request<ChangeAliases>) -> Reply<CollectionOperationResponse> {
        let change = |action| match action {
            Some(Action::CreateAlias(it)) => {
                Ok(Change::Create { alias: it.alias_name, collection: it.collection_name })
            }
            Some(Action::RenameAlias(it)) => Ok(Change::Rename { from: it.old_alias_name, to: it.new_alias_name }),
            Some(Action::DeleteAlias(it)) => Ok(Change::Delete { alias: it.alias_name }),
            None => Err(*wrong("an action on aliases that is none")),
        };
        let changes =
            request.into_inner().actions.into_iter().map(|one| change(one.action)).collect::<Result<_, _>>()?;
        self.0.change_aliases(changes).map_err(|refused| *refused)?;
        done(true)
    }

    async fn list_collection_aliases(
        &self,
        request: Request<ListCollectionAliasesRequest>,
    ) -> Reply<ListAliasesResponse> {
        let aliases = self.0.aliases(Some(&request.into_inner().collection_name));
        Ok(Response::new(ListAliasesResponse { aliases, time: 0.0 }))
    }

    async fn list_aliases(&self, _: Request<ListAliasesRequest>) -> Reply<ListAliasesResponse> {
        Ok(Response::new(ListAliasesResponse { aliases: self.0.aliases(None), time: 0.0 }))
    }

    async fn collection_exists(&self, request: Request<CollectionExistsRequest>) -> Reply<CollectionExistsResponse> {
        let exists = self.0.get(&request.into_inner().collection_name).is_ok();
        Ok(Response::new(CollectionExistsResponse { result: Some(CollectionExists { exists }), time: 0.0 }))
    }

    refused! {
        collection_cluster_info: CollectionClusterInfoRequest => CollectionClusterInfoResponse;
        update_collection_cluster_setup: UpdateCollectionClusterSetupRequest => UpdateCollectionClusterSetupResponse;
        create_shard_key: CreateShardKeyRequest => CreateShardKeyResponse;
        delete_shard_key: DeleteShardKeyRequest => DeleteShardKeyResponse;
        list_shard_keys: ListShardKeysRequest => ListShardKeysResponse;
    }
}

fn done(result: bool) -> Reply<CollectionOperationResponse> {
    Ok(Response::new(CollectionOperationResponse { result, time: 0.0 }))
}
