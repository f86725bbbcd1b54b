//! The episodes of one exchange: what was said, by either side.

use memchr::memchr_iter;

use crate::base::fence;
use crate::base::{EpisodeId, Random, Time};
use crate::memory::gate::gives_orders;
use crate::memory::normalise::fold;
use crate::memory::segment::episode_side;
use crate::memory::{Episode, EpisodeStatus, Said, Speaker, Turn};

/// Episodes fade slowly; the default of `[memory] episode_half_life_days`, as for those added by API.
const HALF_LIFE_SECONDS: i64 = 90 * 86_400;

/// Makes the episodes of a turn: the user's side at `2n`, the reply's at `2n + 1`. The reply has none where the user's side
/// has none, where it was cut short, or where it gives our own notes back.
pub(super) fn of(turn: &Turn, now: Time, ids: &dyn Random, tombstoned: &dyn Fn(&str) -> bool) -> Vec<Episode> {
    let mut out = Vec::new();
    if turn.repeated {
        return out;
    }
    let texts: Vec<String> = turn
        .user
        .iter()
        .filter(|s| s.role == Speaker::User)
        .filter_map(|s| episode_side(&s.text, Speaker::User))
        .collect();
    let text = texts.join("\n");
    let said = turn.user.iter().rfind(|s| s.role == Speaker::User);
    let Some(said) = said else { return out };
    let shown = shown(turn);
    if text.is_empty() || tombstoned(&text) || echoes(&text, &shown) {
        return out;
    }
    out.push(episode(turn, said, text, 0, now, ids));
    if let Some(reply) = turn.reply.as_ref().filter(|_| turn.complete)
        && !fence::occurs_loosely(&reply.text)
        && let Some(text) = episode_side(&reply.text, Speaker::Assistant)
        && !echoes(&text, &shown)
        && !tombstoned(&text)
    {
        out.push(episode(turn, reply, text, 1, now, ids));
    }
    out
}

/// A line of ours that is shorter than this may be anyone's words, in bytes.
const MIN_LINE_BYTES: usize = 12;

/// A block that we showed, folded for comparison, with those of its lines that are long enough to be known again.
struct Block {
    text: String,
    lines: Vec<String>,
}

/// What we showed with a turn.
fn shown(turn: &Turn) -> Vec<Block> {
    let line = |line: &str| {
        let line = line.trim().trim_start_matches("- ").trim_end_matches(['.', ':']);
        (line.len() >= MIN_LINE_BYTES && !line.starts_with('<')).then(|| fold(line).to_lowercase())
    };
    let block =
        |text: &String| Block { text: fold(text).to_lowercase(), lines: text.lines().filter_map(line).collect() };
    turn.shown.iter().map(block).collect()
}

/// Whether a text gives back what we showed: one line of it in full, in whatever wrapping, or nearly nothing but words of it.
fn echoes(text: &str, shown: &[Block]) -> bool {
    if shown.is_empty() {
        return false;
    }
    let folded = fold(text).to_lowercase();
    shown.iter().any(|block| {
        (folded.len() >= 24 && holds(&block.text, &folded)) || block.lines.iter().any(|line| holds(&folded, line))
    })
}

/// Whether `part` stands in `text`. A searcher that is made for each of many parts costs more than it saves in a text of one turn.
fn holds(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let Some(last) = text.len().checked_sub(part.len()) else { return false };
    part.first().is_none_or(|&first| memchr_iter(first, &text[..=last]).any(|at| text[at..].starts_with(part)))
}

fn episode(turn: &Turn, said: &Said, text: String, side: i64, now: Time, ids: &dyn Random) -> Episode {
    let orders = side == 0 && gives_orders(&text);
    let role = if side == 0 { Speaker::User } else { Speaker::Assistant };
    Episode {
        status: if orders { EpisodeStatus::Quarantined } else { EpisodeStatus::Active },
        session: turn.session.clone(),
        position: turn.turn_index.saturating_mul(2).saturating_add(side),
        recorded_at: now,
        exchange: Some(turn.exchange),
        message_hash: said.hash.clone(),
        half_life: HALF_LIFE_SECONDS,
        ..Episode::said(EpisodeId::generate(now, ids), text, role, turn.said_at)
    }
}
