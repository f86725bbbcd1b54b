//! The contract suite on PostgreSQL; and what only a server can get wrong.

use std::sync::Arc;
use std::thread;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};

use super::super::{PostgresOptions, SqlStore};
use crate::base::Secret;
use crate::base::testing::server;
use crate::store::contract::{Opened, contract_suite};

/// A database of its own, dropped with the value.
struct Database {
    admin: String,
    name: String,
}

impl Database {
    async fn create(admin: &str) -> Self {
        let name = format!("backstory_{:032x}", rand::random::<u128>());
        let mut conn = PgConnection::connect(admin).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut conn).await.unwrap();
        Self { admin: admin.to_owned(), name }
    }

    fn url(&self) -> String {
        let (server, _) = self.admin.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (admin, name) = (self.admin.clone(), self.name.clone());
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = PgConnection::connect(&admin).await?;
                sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut conn).await
            })
        });
        // What stays goes with the server, which is there for the tests alone.
        drop(dropped.join());
    }
}

async fn fresh() -> Option<Opened> {
    let database = Database::create(&server("BACKSTORY_TEST_POSTGRES")?).await;
    let store = SqlStore::postgres(PostgresOptions::url(Secret::from(database.url()))).await.unwrap();
    Some(Opened { store: Arc::new(store), keep: Box::new(database) })
}

contract_suite!(server, crate::store::sql::tests::postgres::fresh);
