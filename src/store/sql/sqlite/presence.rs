//! Who has a database open: each process holds a shared lock on a file beside it. (Not on the database itself, whose locks are
//! SQLite's.)
//!
//! A process that finds itself alone knows that all leases are of dead ones, and need not wait for their end. Where files cannot be locked
//! it waits. A wrong answer does no harm: an exchange may be worked on twice, but is stored once.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Says to others that this process has the database open, until it is dropped or the process dies; and whether any other has.
pub(super) fn announce(database: &Path) -> (Option<File>, bool) {
    let mut name = database.as_os_str().to_owned();
    name.push("-presence");
    let Ok(file) = OpenOptions::new().create(true).truncate(false).write(true).open(&name) else {
        return (None, false);
    };
    let alone = file.try_lock().is_ok();
    // Another may come in between: then neither has leased anything yet.
    let announced = (!alone || file.unlock().is_ok()) && file.try_lock_shared().is_ok();
    (announced.then_some(file), alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_nobody_else_is_beside_is_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let database = folder.path().join("backstory.db");
        let (first, alone) = announce(&database);
        assert!(first.is_some() && alone);
        let (second, alone) = announce(&database);
        assert!(second.is_some() && !alone);
        drop(first);
        assert!(!announce(&database).1, "the second is still there");
        drop(second);
        assert!(announce(&database).1);
    }
}
