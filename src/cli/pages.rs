//! Huge pages, which Linux has where the allocator asks for them.
//!
//! One is there whole as soon as a byte of it is used. What a gateway takes while it starts lies far apart and would be twice as large in
//! huge pages as in small ones; what it takes later, scopes above all, is dense and faster to look through in huge ones
//! (`benches/README.md`). Whoever sets the allocator's own variable, or has them off for the process, decides for all of it.

/// The time in which small pages are taken.
pub(super) struct Small {
    /// Huge ones are taken afterwards, where the system has them.
    huge_later: bool,
}

impl Small {
    /// Takes small pages from now on.
    pub(super) fn begin() -> Self {
        #[cfg(target_os = "linux")]
        {
            use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
            let is_ours = std::env::var_os("MIMALLOC_ALLOW_THP").is_none();
            // A kernel that does not know it goes on as it did.
            let are_off = transparent_huge_pages_are_disabled().unwrap_or(true);
            Self { huge_later: is_ours && !are_off && disable_transparent_huge_pages(true).is_ok() }
        }
        #[cfg(not(target_os = "linux"))]
        Self { huge_later: false }
    }

    /// Takes huge ones again.
    pub(super) fn end(self) {
        if self.huge_later {
            // What failed leaves small pages, which serve as well.
            #[cfg(target_os = "linux")]
            let _ = rustix::thread::disable_transparent_huge_pages(false);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{
        disable_transparent_huge_pages as disable, transparent_huge_pages_are_disabled as are_disabled,
    };

    use super::*;

    #[test]
    fn huge_pages_are_off_until_the_end_and_stay_off_where_they_were() {
        let starting = Small::begin();
        let is_ours = std::env::var_os("MIMALLOC_ALLOW_THP").is_none() && starting.huge_later;
        if is_ours {
            assert!(are_disabled().unwrap());
            starting.end();
            assert!(!are_disabled().unwrap());
        }
        disable(true).unwrap();
        Small::begin().end();
        assert!(are_disabled().unwrap());
    }
}
