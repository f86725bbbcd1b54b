//! `backstory check`: reads the configuration and says what is wrong with it, without starting anything.

use std::path::Path;

use crate::certificates::Pair;
use crate::config::{Config, Env, Overrides};

/// What a command prints, and whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// The text for the terminal, without a line break at its end.
    pub(super) text: String,
    /// The exit code: 0 = the configuration is good, 1 = it is not.
    pub(super) code: u8,
}

/// Checks the file at `path`, else the one that `BACKSTORY_CONFIG` names, else the defaults.
#[must_use]
pub(super) fn run(overrides: &Overrides, path: Option<&Path>, env: &dyn Env) -> Checked {
    let config = match Config::load_with(path, env, overrides) {
        Ok(config) => config,
        Err(errors) => return Checked { text: errors.to_string(), code: 1 },
    };
    let unsupported = config.unsupported();
    if unsupported.is_empty() {
        return Checked { text: summary(&config), code: 0 };
    }
    // `serve` would refuse to start on it, so it is no good configuration for this build.
    let text = format!("this build cannot do what is configured:\n  {}", unsupported.join("\n  "));
    Checked { text, code: 1 }
}

fn summary(config: &Config) -> String {
    let file = config.file.as_ref().map_or_else(|| "built-in defaults".to_owned(), |file| file.display().to_string());
    let keys = match config.keys.len() {
        0 => "no keys (clients use their own upstream keys)".to_owned(),
        n => counted(n, "key"),
    };
    let server = &config.server;
    let tls = |pair: Option<&Pair>| pair.map_or_else(String::new, |pair| format!(" (TLS until {})", pair.not_after));
    let admin = server
        .admin_listen
        .map_or_else(String::new, |address| format!(", for operators on {address}{}", tls(server.tls_of_admin())));
    format!(
        "config ok: {file}: listens on {}{}{admin}, {}, {}, {keys}",
        server.listen,
        tls(server.tls.as_ref()),
        counted(config.providers.len(), "provider"),
        counted(config.models.len(), "model"),
    )
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// One file, no variables.
    struct OneFile(&'static str);

    impl Env for OneFile {
        fn var(&self, _: &str) -> Option<String> {
            None
        }

        fn file(&self, _: &Path) -> io::Result<String> {
            Ok(self.0.to_owned())
        }
    }

    fn check(text: &'static str) -> Checked {
        run(&Overrides::default(), Some(Path::new("b.toml")), &OneFile(text))
    }

    #[test]
    fn a_good_configuration_is_summed_up() {
        let checked = check("[[providers]]\nname='p'\nbase_url='http://h/v1'\n[[keys]]\nkey='k'");
        assert_eq!(checked.code, 0);
        assert_eq!(checked.text, "config ok: b.toml: listens on 127.0.0.1:8080, 1 provider, 0 models, 1 key");
        assert!(run(&Overrides::default(), None, &OneFile("")).text.contains("built-in defaults"));
    }

    /// BerriAI/litellm#32962: an unknown key and a dangling name are both named at once.
    #[test]
    fn every_mistake_of_a_bad_configuration_is_named() {
        let checked = check("[sever]\n[[models]]\nname='m'\n[[models.targets]]\nprovider='nowhere'\nmodel='x'");
        assert_eq!(checked.code, 1);
        for named in ["2 mistakes in b.toml", "sever", "`server`", "models[0].targets[0].provider", "\"nowhere\""] {
            assert!(checked.text.contains(named), "{named} in {}", checked.text);
        }
    }

    #[test]
    fn what_this_build_cannot_do_is_no_good_configuration() {
        let checked = check("[extract]\nwindow_seconds=1");
        assert_eq!(checked.code, 1);
        assert!(checked.text.contains("extract.window_seconds"), "{}", checked.text);
    }
}
