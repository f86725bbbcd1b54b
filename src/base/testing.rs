//! Servers that tests run against.

/// The address of a server in an environment variable; without one the test has nothing to say, unless servers are required.
pub(crate) fn server(variable: &str) -> Option<String> {
    let address = std::env::var(variable).ok().filter(|address| !address.is_empty());
    if address.is_none() {
        assert!(
            std::env::var("BACKSTORY_TEST_SERVERS").as_deref() != Ok("required"),
            "{variable} is not set: run the tests by scripts/test"
        );
        eprintln!("SKIPPED: {variable} is not set");
    }
    address
}
