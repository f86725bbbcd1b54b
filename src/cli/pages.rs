//! Huge pages, which Linux has where the allocator asks for them.
//!
//! One is there whole as soon as a byte of it is used. What a gateway takes while it starts lies far apart and would be twice as large in
//! huge pages as in small ones; what it takes later, scopes above all, is dense and faster to look through in huge ones
//! (`benches/README.md`). Whoever sets the allocator's own variable decides for all of it.

/// Takes small pages from now on.
pub(super) fn small() {
    choose(false);
}

/// Takes huge pages from now on, where the system has them.
pub(super) fn huge() {
    choose(true);
}

fn choose(huge: bool) {
    #[cfg(target_os = "linux")]
    if std::env::var_os("MIMALLOC_ALLOW_THP").is_none() {
        // A kernel that does not know it goes on as it did.
        let _ = rustix::thread::disable_transparent_huge_pages(!huge);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = huge;
}
