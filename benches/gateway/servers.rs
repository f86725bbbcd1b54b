//! A database and a prefix of our own in the PostgreSQL and the Redis of `scripts/servers`, for gateways that share them.

use std::path::Path;
use std::process::Command;

use crate::{Result, backstory};

/// Dropped, the database is too. What is in Redis ends by itself.
#[derive(Debug)]
pub(crate) struct Servers {
    postgres: String,
    redis: String,
    name: String,
}

impl Servers {
    /// With an empty database.
    pub(crate) fn create() -> Result<Self> {
        let of = |name: &str| {
            std::env::var(name).map_err(|_| format!("{name} is not set: eval \"$(scripts/servers start)\""))
        };
        let (postgres, redis) = (of("BACKSTORY_TEST_POSTGRES")?, of("BACKSTORY_TEST_REDIS")?);
        let servers = Self { postgres, redis, name: format!("bench_{:016x}", rand::random::<u64>()) };
        servers.administer(&format!("CREATE DATABASE {}", servers.name))?;
        Ok(servers)
    }

    /// With a copy of a store.
    pub(crate) fn with_copy_of(data: &Path) -> Result<Self> {
        let servers = Self::create()?;
        let from = format!("sqlite://{}", data.join("backstory.db").display());
        succeed(backstory::command().args(["migrate", "--from", &from, "--to", &servers.url()]))?;
        servers.analyze()?;
        Ok(servers)
    }

    /// The database's address.
    pub(crate) fn url(&self) -> String {
        let server = self.postgres.rsplit_once('/').map_or(self.postgres.as_str(), |(server, _)| server);
        format!("{server}/{}", self.name)
    }

    /// Lets the planner know what is there, as it does in a database that has run for a while.
    pub(crate) fn analyze(&self) -> Result<()> {
        succeed(Command::new("psql").arg(self.url()).args(["-qc", "VACUUM ANALYZE"]))
    }

    /// Lines of `[store]`, and a table behind it.
    pub(crate) fn config(&self) -> String {
        format!("url = \"{}\"\n[redis]\nurl = \"{}\"\nprefix = \"{}:\"", self.url(), self.redis, self.name)
    }

    fn administer(&self, statement: &str) -> Result<()> {
        succeed(Command::new("psql").arg(&self.postgres).args(["-qc", statement]))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.administer(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&done.stderr)).into())
}
