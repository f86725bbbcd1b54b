//! `backstory migrate`: copies the records of one database into another, while gateways run on the first.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::bar::Bar;
use super::{asked_to_stop, complain, say};
use crate::base::Secret;
use crate::store::sql::{Copied, PostgresOptions, SqlStore, SqliteOptions};

/// From where to where.
#[derive(Clone, Debug, Args)]
pub(super) struct MigrateArgs {
    /// The database that is copied: sqlite://PATH or postgres://USER:PASSWORD@HOST/DATABASE. Gateways may go on using it
    #[arg(long, value_name = "URL", env = "BACKSTORY_MIGRATE_FROM", hide_env_values = true)]
    from: String,
    /// The database it is copied into: postgres://…, empty, or one that an earlier run copied into. No gateway may use it yet
    #[arg(long, value_name = "URL", env = "BACKSTORY_MIGRATE_TO", hide_env_values = true)]
    to: String,
}

/// Copies what differs, and says what did.
pub(super) async fn run(args: MigrateArgs) -> ExitCode {
    let copied = tokio::select! {
        copied = copy(&args) => copied,
        () = asked_to_stop() => {
            complain("stopped. What was copied stays: the same command goes on from there");
            return ExitCode::FAILURE;
        }
    };
    match copied {
        Ok(tables) => {
            report(&tables);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

async fn copy(args: &MigrateArgs) -> Result<Vec<Copied>, String> {
    let from = open("--from", &args.from, false).await?;
    let to = open("--to", &args.to, true).await?;
    let mut bar = Bar::new("rows");
    let copied = from.copy_to(&to, |state| bar.tell(state.done, state.all, state.table)).await;
    bar.end();
    copied.map_err(|error| format!("{error}. What was copied stays: the same command goes on from there"))
}

async fn open(which: &str, url: &str, is_target: bool) -> Result<SqlStore, String> {
    if let Some(path) = url.strip_prefix("sqlite://").map(PathBuf::from) {
        if is_target {
            return Err(format!("{which}: only a postgres:// database can be copied into"));
        }
        // Opening would make it.
        if !path.exists() {
            return Err(format!("{which}: there is no {}", path.display()));
        }
        let shown = path.display().to_string();
        return SqlStore::sqlite(SqliteOptions::file(path)).await.map_err(|error| format!("{which}: {shown}: {error}"));
    }
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        // Not the value: it may hold a password.
        return Err(format!("{which}: must be sqlite://PATH or postgres://USER:PASSWORD@HOST/DATABASE"));
    }
    let options = PostgresOptions::url(Secret::from(url));
    SqlStore::postgres(options).await.map_err(|error| format!("{which}: {error}"))
}

fn report(tables: &[Copied]) {
    say("table               rows    written    removed  BLAKE3 of all rows");
    for table in tables {
        let checksum: String = table.checksum[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        say(&format!("{:<14} {:>9}  {:>9}  {:>9}  {checksum}…", table.table, table.rows, table.written, table.removed));
    }
    let differed: u64 = tables.iter().map(|table| table.written + table.removed).sum();
    if differed == 0 {
        say("both databases are the same, row for row. Start the gateways on the new one (store.url)");
    } else {
        say(&format!(
            "{differed} rows differed and were copied. Stop the gateways and run this again: when nothing differs, both are the same"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(from: &str, to: &str) -> String {
        copy(&MigrateArgs { from: from.to_owned(), to: to.to_owned() }).await.unwrap_err()
    }

    #[tokio::test]
    async fn what_cannot_be_copied_is_refused_without_telling_a_password() {
        let folder = tempfile::TempDir::new().unwrap();
        let missing = format!("sqlite://{}", folder.path().join("none.db").display());
        assert!(refusal(&missing, "postgres://h/d").await.contains("there is no"));
        let told = refusal("mysql://u:sesame@h/d", "postgres://h/d").await;
        assert!(told.starts_with("--from: must be sqlite://") && !told.contains("sesame"), "{told}");
        let path = folder.path().join("some.db");
        SqlStore::sqlite(SqliteOptions::file(&path)).await.unwrap().close().await;
        let there = format!("sqlite://{}", path.display());
        assert!(refusal(&there, &there).await.contains("only a postgres://"));
    }
}
