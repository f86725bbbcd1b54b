//! What is refused, in the codes and words of Qdrant's server.

use qdrant_edge::OperationError;
use tonic::Status;

/// A status in a box: it is large.
pub(crate) type Refused = Box<Status>;

/// Something of Qdrant's interface that this server does not know.
pub(crate) fn unsupported(what: &str) -> Refused {
    Box::new(Status::unimplemented(format!(
        "{what}: this is a test server, which does not know that; it is not Qdrant's server"
    )))
}

pub(crate) fn wrong(why: impl std::fmt::Display) -> Refused {
    Box::new(Status::invalid_argument(format!("Wrong input: {why}")))
}

pub(crate) fn missing(collection: &str) -> Refused {
    Box::new(Status::not_found(format!("Not found: Collection `{collection}` doesn't exist!")))
}

pub(crate) fn broken(why: impl std::fmt::Display) -> Refused {
    Box::new(Status::internal(format!("Service internal error: {why}")))
}

pub(crate) fn engine(error: OperationError) -> Refused {
    match error {
        OperationError::WrongVectorDimension { .. }
        | OperationError::VectorNameNotExists { .. }
        | OperationError::ValidationError { .. }
        | OperationError::TypeError { .. }
        | OperationError::TypeInferenceError { .. }
        | OperationError::WrongSparse
        | OperationError::WrongMulti => wrong(error),
        other => broken(other),
    }
}

/// Methods of a trait that are refused: as `async_trait` would write them, which does not look into macros.
macro_rules! refused {
    ($($name:ident: $request:ident => $response:ident;)*) => {
        $(fn $name<'life0, 'async_trait>(
            &'life0 self,
            _: tonic::Request<qdrant_client::qdrant::$request>,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<tonic::Response<qdrant_client::qdrant::$response>, tonic::Status>> + Send + 'async_trait>>
        where
            'life0: 'async_trait,
            Self: 'async_trait,
        {
            Box::pin(async { Err(*$crate::refuse::unsupported(stringify!($name))) })
        })*
    };
}
pub(crate) use refused;
