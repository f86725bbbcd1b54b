//! Qdrant's service of points: each call is handed to the engine, off the threads that answer.

use std::sync::Arc;

use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::{
    BatchResult, CountPoints, CountResponse, CountResult, CreateFieldIndexCollection, DeletePoints,
    PointsOperationResponse, QueryBatchPoints, QueryBatchResponse, QueryPoints, QueryResponse, ScrollPoints,
    ScrollResponse, UpdateResult, UpdateStatus, UpsertPoints,
};
use qdrant_edge::{
    CountRequest, CreateIndex, FieldIndexOperations, PointInsertOperations, PointOperations, ScrollRequest,
    UpdateOperation, WithVector,
};
use tonic::{Request, Response, Status};

use crate::convert::{self, filter, path, point, point_id};
use crate::refuse::{Refused, engine, refused, unsupported, wrong};
use crate::shelf::Shelf;

/// The service.
pub(crate) struct Service(pub(crate) Arc<Shelf>);

type Reply<T> = Result<Response<T>, Status>;

/// Does something slow on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(f).await {
        Ok(result) => result.map_err(|refused| *refused),
        Err(error) => Err(Status::internal(format!("Service internal error: {error}"))),
    }
}

impl Service {
    /// Hands an operation to a collection's engine.
    async fn update(
        &self,
        collection: String,
        operation: impl FnOnce() -> Result<UpdateOperation, Refused> + Send + 'static,
    ) -> Reply<PointsOperationResponse> {
        let shelf = Arc::clone(&self.0);
        let collection = blocking(move || {
            let (collection, operation) = (shelf.get(&collection)?, operation()?);
            let points = operation.point_ids().map_or(0, |ids| ids.len());
            collection.shard.update(operation).map_err(engine)?;
            Ok(collection.wrote(points).then_some(collection))
        })
        .await?;
        if let Some(collection) = collection {
            // Beside whatever comes next; a failure shows in what is asked for then.
            tokio::task::spawn_blocking(move || collection.optimize());
        }
        // Always waited for, whatever was asked: what was written is seen at once.
        let result = UpdateResult { operation_id: None, status: UpdateStatus::Completed.into() };
        Ok(Response::new(PointsOperationResponse { result: Some(result), ..Default::default() }))
    }
}

#[tonic::async_trait]
impl Points for Service {
    async fn upsert(&self, request: Request<UpsertPoints>) -> Reply<PointsOperationResponse> {
        let request = request.into_inner();
        if request.update_filter.is_some() || request.update_mode.is_some() {
            return Err(*unsupported("a condition on what is put"));
        }
        let points = move || {
            let points = request.points.into_iter().map(point).collect::<Result<_, _>>()?;
            let put = PointOperations::UpsertPoints(PointInsertOperations::PointsList(points));
            Ok(UpdateOperation::PointOperation(put))
        };
        self.update(request.collection_name, points).await
    }

    async fn delete(&self, request: Request<DeletePoints>) -> Reply<PointsOperationResponse> {
        let request = request.into_inner();
        let selector = request.points.and_then(|selector| selector.points_selector_one_of);
        let which = move || {
            let delete = match selector {
                Some(PointsSelectorOneOf::Filter(by)) => PointOperations::DeletePointsByFilter(filter(by)?),
                Some(PointsSelectorOneOf::Points(list)) => {
                    let ids = list.ids.into_iter().map(point_id).collect::<Result<_, _>>()?;
                    PointOperations::DeletePoints { ids }
                }
                None => return Err(wrong("no points are selected")),
            };
            Ok(UpdateOperation::PointOperation(delete))
        };
        self.update(request.collection_name, which).await
    }

    async fn create_field_index(&self, request: Request<CreateFieldIndexCollection>) -> Reply<PointsOperationResponse> {
        let request = request.into_inner();
        let index = move || {
            let field_schema = Some(convert::index(request.field_type, request.field_index_params)?);
            let create = CreateIndex { field_name: path(&request.field_name)?, field_schema };
            Ok(UpdateOperation::FieldIndexOperation(FieldIndexOperations::CreateIndex(create)))
        };
        self.update(request.collection_name, index).await
    }

    async fn query(&self, request: Request<QueryPoints>) -> Reply<QueryResponse> {
        let (shelf, request) = (Arc::clone(&self.0), request.into_inner());
        let result = blocking(move || {
            let collection = shelf.get(&request.collection_name)?;
            let points = collection.shard.query(convert::query(request)?).map_err(engine)?;
            Ok(points.into_iter().map(convert::scored).collect())
        });
        Ok(Response::new(QueryResponse { result: result.await?, ..Default::default() }))
    }

    async fn query_batch(&self, request: Request<QueryBatchPoints>) -> Reply<QueryBatchResponse> {
        let (shelf, request) = (Arc::clone(&self.0), request.into_inner());
        let result = blocking(move || {
            let collection = shelf.get(&request.collection_name)?;
            let one = |query| {
                let points = collection.shard.query(convert::query(query)?).map_err(engine)?;
                Ok(BatchResult { result: points.into_iter().map(convert::scored).collect() })
            };
            request.query_points.into_iter().map(one).collect::<Result<_, Refused>>()
        });
        Ok(Response::new(QueryBatchResponse { result: result.await?, ..Default::default() }))
    }

    async fn scroll(&self, request: Request<ScrollPoints>) -> Reply<ScrollResponse> {
        let (shelf, request) = (Arc::clone(&self.0), request.into_inner());
        if request.order_by.is_some() || request.with_vectors.is_some() {
            return Err(*unsupported("scrolling in an order, or with vectors"));
        }
        let (records, next) = blocking(move || {
            let scroll = ScrollRequest {
                offset: request.offset.map(point_id).transpose()?,
                limit: Some(request.limit.map_or(10, |limit| limit as usize)),
                filter: request.filter.map(filter).transpose()?,
                with_payload: Some(convert::with_payload(request.with_payload)?),
                with_vector: WithVector::Bool(false),
                order_by: None,
            };
            shelf.get(&request.collection_name)?.shard.scroll(scroll).map_err(engine)
        })
        .await?;
        let result = records.into_iter().map(convert::record).collect();
        Ok(Response::new(ScrollResponse { result, next_page_offset: next.map(convert::id), ..Default::default() }))
    }

    async fn count(&self, request: Request<CountPoints>) -> Reply<CountResponse> {
        let (shelf, request) = (Arc::clone(&self.0), request.into_inner());
        let count = blocking(move || {
            let filter = request.filter.map(filter).transpose()?;
            let count = CountRequest { filter, exact: request.exact.unwrap_or(true) };
            shelf.get(&request.collection_name)?.shard.count(count).map_err(engine)
        });
        let result = Some(CountResult { count: count.await? as u64 });
        Ok(Response::new(CountResponse { result, ..Default::default() }))
    }

    refused! {
        get: GetPoints => GetResponse;
        update_vectors: UpdatePointVectors => PointsOperationResponse;
        delete_vectors: DeletePointVectors => PointsOperationResponse;
        set_payload: SetPayloadPoints => PointsOperationResponse;
        overwrite_payload: SetPayloadPoints => PointsOperationResponse;
        delete_payload: DeletePayloadPoints => PointsOperationResponse;
        clear_payload: ClearPayloadPoints => PointsOperationResponse;
        delete_field_index: DeleteFieldIndexCollection => PointsOperationResponse;
        create_vector_name: CreateVectorNameRequest => PointsOperationResponse;
        delete_vector_name: DeleteVectorNameRequest => PointsOperationResponse;
        search: SearchPoints => SearchResponse;
        search_batch: SearchBatchPoints => SearchBatchResponse;
        search_groups: SearchPointGroups => SearchGroupsResponse;
        recommend: RecommendPoints => RecommendResponse;
        recommend_batch: RecommendBatchPoints => RecommendBatchResponse;
        recommend_groups: RecommendPointGroups => RecommendGroupsResponse;
        discover: DiscoverPoints => DiscoverResponse;
        discover_batch: DiscoverBatchPoints => DiscoverBatchResponse;
        update_batch: UpdateBatchPoints => UpdateBatchResponse;
        query_groups: QueryPointGroups => QueryGroupsResponse;
        facet: FacetCounts => FacetResponse;
        search_matrix_pairs: SearchMatrixPoints => SearchMatrixPairsResponse;
        search_matrix_offsets: SearchMatrixPoints => SearchMatrixOffsetsResponse;
    }
}
