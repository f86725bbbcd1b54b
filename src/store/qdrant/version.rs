//! Which servers the client was made for.

/// Major and minor version of the client, as Cargo.toml asks for it.
const CLIENT: (u32, u32) = (1, 20);

/// Says what is wrong with the version of a server: Qdrant promises that neighbouring minor versions understand each other. None: nothing.
#[must_use]
pub fn skew(server: &str) -> Option<String> {
    let (major, minor) = CLIENT;
    let mut parts = server.split('.').map(str::parse::<u32>);
    let (Some(Ok(its_major)), Some(Ok(its_minor))) = (parts.next(), parts.next()) else {
        return Some(format!("the Qdrant server's version {server:?} is none that we know"));
    };
    (its_major != major || its_minor.abs_diff(minor) > 1).then(|| {
        format!(
            "the Qdrant server has version {server}, its client here {major}.{minor}: use a server of version {major}.{} to {major}.{}",
            minor - 1,
            minor + 1
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbouring_minor_version_is_no_skew() {
        for version in ["1.19.0", "1.20.3", "1.21.0-dev"] {
            assert_eq!(skew(version), None);
        }
        for version in ["1.18.2", "1.22.0", "2.20.0", "", "x.y"] {
            assert!(skew(version).is_some_and(|text| text.contains(version)), "{version}");
        }
    }

    #[test]
    fn the_client_is_the_one_that_is_asked_for() {
        let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
        let (major, minor) = CLIENT;
        assert_eq!(manifest["dependencies"]["qdrant-client"]["version"].as_str(), Some(&*format!("{major}.{minor}")));
    }
}
