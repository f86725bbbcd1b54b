//! `Authenticate`: key → principal.

use std::sync::Arc;

use super::respond::Arrived;
use super::stage::Stage;
use crate::access::Keys;
use crate::base::GatewayError;
use crate::exchange::Authenticated;

/// Finds out who asks; refuses with 401.
#[derive(Debug)]
pub struct Authenticate(pub Arc<Keys>);

impl<B: Send + 'static> Stage<Arrived<B>> for Authenticate {
    type Out = Authenticated<B>;

    async fn run(&self, Arrived { stamp, http }: Arrived<B>) -> Result<Self::Out, GatewayError> {
        let (principal, credential) = self.0.authenticate(http.headers()).await?;
        Ok(Authenticated { stamp, principal, credential, http })
    }
}
