//! What the server says of itself, and what is wrong with that.

use std::fmt;
use std::time::{Duration, Instant};

use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, cmd};

use crate::base::Time;

/// Scripts may write after they have asked for the time since this version.
const OLDEST: u32 = 5;

/// What a server is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its version, as it says it.
    pub version: String,
    /// What it drops when its memory is full.
    pub eviction: String,
    /// It takes no writes: it follows another server.
    pub is_replica: bool,
    /// How long it took to answer.
    pub latency: Duration,
    /// How far its clock is before ours, in milliseconds.
    pub ahead_millis: i64,
}

/// Who has keys under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody yet.
    Nobody,
    /// The replicas of this store.
    Ours,
    /// Those of another one.
    Another,
}

/// Why Redis is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It cannot be reached.
    Unreachable(String),
    /// It does not know the user or the password.
    Credentials,
    /// It answers too late.
    Late,
    /// It has no memory left, and drops nothing.
    Full,
    /// It refuses what is asked of it.
    Refuses(String),
    /// It follows another server.
    Replica,
    /// It is older than what we ask of it.
    Old(String),
    /// Another cluster has its keys under the prefix.
    OtherCluster(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(what) => {
                write!(f, "Redis cannot be reached: {what}; look at [redis] url and the network")
            }
            Self::Credentials => f.write_str("Redis refuses the user or the password in [redis] url"),
            Self::Late => f.write_str("Redis answers later than [redis] timeout_ms"),
            Self::Full => f.write_str("Redis has no memory left: raise its `maxmemory`, or give us a Redis of our own"),
            Self::Refuses(what) => write!(f, "Redis refuses commands: {what}"),
            Self::Replica => f.write_str("Redis is a read-only replica; [redis] url must lead to the primary"),
            Self::Old(version) => write!(f, "Redis {version} is too old; {OLDEST}.0 or newer is needed"),
            Self::OtherCluster(prefix) => write!(
                f,
                "another Backstory cluster, with another store, has its keys under the prefix `{prefix}` in this Redis: give each cluster \
                 a [redis] prefix of its own (or delete `{prefix}cluster` there if the other one is gone)"
            ),
        }
    }
}

/// Why an error means that Redis is not used. Nothing in it quotes a value.
pub(super) fn reason(error: &RedisError) -> Reason {
    match error.kind() {
        ErrorKind::AuthenticationFailed => Reason::Credentials,
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Reason::Replica,
        _ if error.is_timeout() => Reason::Late,
        _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => Reason::Credentials,
        _ if error.code() == Some("OOM") => Reason::Full,
        // A code that the client has no name for is an answer, too.
        ErrorKind::Server(_) | ErrorKind::Extension => {
            Reason::Refuses(error.code().unwrap_or("an error without a code").to_owned())
        }
        // That of the system or of TLS, which know nothing of users and passwords.
        ErrorKind::Io => Reason::Unreachable(error.to_string()),
        _ => Reason::Unreachable(error.category().to_owned()),
    }
}

impl Server {
    /// Asks what a server is like; `now` is our own time.
    pub(super) async fn ask(connection: &mut impl ConnectionLike, now: impl Fn() -> Time) -> RedisResult<Self> {
        let info: String = cmd("INFO").query_async(connection).await?;
        let (begun, before) = (Instant::now(), now());
        let (seconds, micros): (i64, i64) = cmd("TIME").query_async(connection).await?;
        let (latency, after) = (begun.elapsed(), now());
        // It was asked somewhere between the two.
        let ours = before.0 + after.since(before) / 2;
        let of = |name| field(&info, name).unwrap_or_default().to_owned();
        Ok(Self {
            version: of("redis_version"),
            eviction: of("maxmemory_policy"),
            is_replica: of("role") == "slave",
            latency,
            ahead_millis: seconds * 1_000 + micros / 1_000 - ours,
        })
    }

    /// Why it cannot be used, if it cannot.
    pub(super) fn hinders(&self) -> Option<Reason> {
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match major {
            _ if self.is_replica => Some(Reason::Replica),
            Some(major) if major < OLDEST => Some(Reason::Old(self.version.clone())),
            _ => None,
        }
    }

    /// What should be changed about it, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (!matches!(self.eviction.as_str(), "noeviction" | "")).then(|| {
            format!(
                "Redis drops keys when its memory is full (maxmemory-policy {}), and with them what was used of limits: set \
                 `maxmemory-policy noeviction`, or give us a Redis of our own",
                self.eviction
            )
        })
    }
}

/// The value of a line `name:value`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(version: &str, eviction: &str) -> Server {
        Server {
            version: version.to_owned(),
            eviction: eviction.to_owned(),
            is_replica: false,
            latency: Duration::ZERO,
            ahead_millis: 0,
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrole:master\r\n# Memory\r\nmaxmemory_policy:allkeys-lru\r\n";
        assert_eq!(field(info, "redis_version"), Some("7.0.15"));
        assert_eq!(field(info, "maxmemory_policy"), Some("allkeys-lru"));
        assert_eq!(field(info, "maxmemory"), None);
    }

    #[test]
    fn a_refusal_is_told_by_its_code_whether_the_client_knows_it_or_not() {
        let of = |code: &str| reason(&redis::make_extension_error(code.to_owned(), None));
        assert_eq!(of("OOM"), Reason::Full);
        assert_eq!(of("MISCONF"), Reason::Refuses("MISCONF".to_owned()));
    }

    #[test]
    fn what_is_too_old_or_follows_another_is_not_used() {
        assert_eq!(server("4.0.9", "noeviction").hinders(), Some(Reason::Old("4.0.9".to_owned())));
        assert_eq!(server("7.0.15", "noeviction").hinders(), None);
        // A server that does not say is taken as it is.
        assert_eq!(server("", "").hinders(), None);
        assert_eq!(Server { is_replica: true, ..server("7.0.15", "") }.hinders(), Some(Reason::Replica));
    }

    #[test]
    fn eviction_is_warned_of_with_what_to_do() {
        assert_eq!(server("7.0.15", "noeviction").warning(), None);
        let warning = server("7.0.15", "allkeys-lru").warning().unwrap();
        assert!(warning.contains("allkeys-lru") && warning.contains("noeviction"), "{warning}");
    }
}
