//! Content parts as content blocks.

use std::borrow::Cow;

use crate::wire::text::encode_string;
use crate::wire::translate::json::Array;
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::Value;

/// Where a part stands, for the words of a refusal.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) message: usize,
    pub(super) part: usize,
}

impl Place {
    fn param(self) -> String {
        format!("messages[{}].content[{}]", self.message, self.part)
    }
}

/// Writes one part as a block; a blank text as none, since the API refuses it.
pub(super) fn part(
    blocks: &mut Array<'_>,
    part: Value<'_>,
    cache_control: Option<Value<'_>>,
    at: Place,
    losses: &mut Losses,
) {
    let cache_control = part.get("cache_control").or(cache_control);
    match &*part.kind() {
        kind @ ("text" | "input_text" | "refusal") => {
            let text = part.get_text(if kind == "refusal" { "refusal" } else { "text" });
            match text {
                Some(literal) => text_block(blocks, literal, cache_control),
                None => losses.refuse(at.param(), "has no text"),
            }
        }
        "image_url" => image(blocks, part, cache_control, at, losses),
        "file" => file(blocks, part, cache_control, at, losses),
        kind => {
            losses.refuse(at.param(), format!("is of type `{kind}`, which cannot be carried over to this target"));
        }
    }
}

/// Writes a text block, unless the text is blank.
pub(super) fn text_block(blocks: &mut Array<'_>, text: Value<'_>, cache_control: Option<Value<'_>>) {
    if text.is_blank() {
        return;
    }
    blocks.object(|block| {
        block.raw("type", r#""text""#);
        block.raw("text", text.literal());
        block.raw_if("cache_control", cache_control.map(Value::literal));
    });
}

/// A text without the white space at its end, which the API refuses at the end of what the model is to go on with.
pub(super) fn trimmed(text: Value<'_>) -> Cow<'_, str> {
    match text.string() {
        Some(said) if said.ends_with(char::is_whitespace) => Cow::Owned(encode_string(said.trim_end())),
        _ => Cow::Borrowed(text.literal()),
    }
}

fn image(blocks: &mut Array<'_>, part: Value<'_>, cache_control: Option<Value<'_>>, at: Place, losses: &mut Losses) {
    let image = part.get("image_url");
    let url = image.and_then(|image| image.string().or_else(|| image.get_string("url"))).unwrap_or_default();
    let detail = image.and_then(|image| image.get_string("detail"));
    if detail.is_some_and(|detail| detail != "auto") {
        losses.lose("image_url.detail");
    }
    let source = match Source::of(&url) {
        Some(source) => source,
        None => {
            let problem = "must have an image_url.url that is https:, http: or data: with base64";
            return losses.refuse(at.param(), problem);
        }
    };
    block(blocks, "image", &source, cache_control, None);
}

/// PDF files can be read there; other files, and those that only OpenAI keeps, cannot.
fn file(blocks: &mut Array<'_>, part: Value<'_>, cache_control: Option<Value<'_>>, at: Place, losses: &mut Losses) {
    let file = part.get("file");
    let data = file.and_then(|file| file.get_string("file_data")).unwrap_or_default();
    match Source::of(&data) {
        Some(source @ Source::Data { media: "application/pdf", .. }) => {
            let title = file.and_then(|file| file.get_text("filename"));
            block(blocks, "document", &source, cache_control, title);
        }
        _ => losses.refuse(at.param(), "must hold `file_data` with a PDF in base64: this target reads no other files"),
    }
}

fn block(
    blocks: &mut Array<'_>,
    kind: &str,
    source: &Source<'_>,
    cache_control: Option<Value<'_>>,
    title: Option<Value<'_>>,
) {
    blocks.object(|block| {
        block.text("type", kind);
        block.object("source", |out| match source {
            Source::Data { media, data } => {
                out.raw("type", r#""base64""#);
                out.text("media_type", media);
                out.text("data", data);
            }
            Source::Url(url) => {
                out.raw("type", r#""url""#);
                out.text("url", url);
            }
        });
        block.raw_if("title", title.map(Value::literal));
        block.raw_if("cache_control", cache_control.map(Value::literal));
    });
}

enum Source<'a> {
    Data { media: &'a str, data: &'a str },
    Url(&'a str),
}

impl<'a> Source<'a> {
    /// What a URL leads to; `None` where the API could not follow it.
    fn of(url: &'a str) -> Option<Self> {
        if let Some(rest) = url.strip_prefix("data:") {
            let (head, data) = rest.split_once(',')?;
            let media = head.strip_suffix(";base64")?;
            // Parameters such as a charset say nothing of a picture.
            let media = media.split(';').next().unwrap_or_default();
            return (!media.is_empty() && !data.is_empty()).then_some(Self::Data { media, data });
        }
        (url.starts_with("https://") || url.starts_with("http://")).then_some(Self::Url(url))
    }
}
