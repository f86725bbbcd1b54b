//! Content blocks as content parts.

use std::borrow::Cow;

use crate::wire::translate::json::Array;
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::Value;

/// Texts in a row become one with a line between; as it is written.
const BETWEEN: &str = r"\n";

/// The texts of a content, escaped as they are; `None` when there is something else in it. A string is one text.
pub(super) fn only_text(content: Value<'_>) -> Option<Cow<'_, str>> {
    if content.is_string() {
        return Some(Cow::Borrowed(content.inner()));
    }
    let mut all: Option<Cow<'_, str>> = None;
    for block in content.elements() {
        let text = block.get_text("text").filter(|_| block.kind() == "text")?;
        match &mut all {
            None => all = Some(Cow::Borrowed(text.inner())),
            Some(before) => {
                let before = before.to_mut();
                before.push_str(BETWEEN);
                before.push_str(text.inner());
            }
        }
    }
    all
}

/// Writes one block of a user's message as a part.
pub(super) fn part(parts: &mut Array<'_>, block: Value<'_>, param: &str, losses: &mut Losses) {
    let source = block.get("source");
    match &*block.kind() {
        "text" => text(parts, block.get_text("text").map_or("", Value::inner)),
        "image" => match source.and_then(url_of) {
            Some(url) => parts.object(|part| {
                part.raw("type", r#""image_url""#);
                part.object("image_url", |image| image.escaped("url", &url));
            }),
            None => {
                losses.refuse(param, "must have a source of type `base64` or `url`: this target reads no other images")
            }
        },
        "document" => match source {
            Some(source) if source.kind() == "text" => text(parts, source.get_text("data").map_or("", Value::inner)),
            Some(source) if source.kind() == "base64" => parts.object(|part| {
                part.raw("type", r#""file""#);
                part.object("file", |file| {
                    file.raw("filename", block.get_text("title").map_or(r#""document.pdf""#, Value::literal));
                    file.escaped("file_data", &url_of(source).unwrap_or_default());
                });
            }),
            _ => losses
                .refuse(param, "must have a source of type `base64` or `text`: this target reads no other documents"),
        },
        kind => losses.refuse(param, format!("is of type `{kind}`, which cannot be carried over to this target")),
    }
}

fn text(parts: &mut Array<'_>, escaped: &str) {
    parts.object(|part| {
        part.raw("type", r#""text""#);
        part.escaped("text", escaped);
    });
}

/// The URL of a source, escaped; what is given itself becomes a `data:` URL.
fn url_of(source: Value<'_>) -> Option<Cow<'_, str>> {
    match &*source.kind() {
        "url" => source.get_text("url").map(|url| Cow::Borrowed(url.inner())),
        "base64" => {
            let (media, data) = (source.get_text("media_type")?, source.get_text("data")?);
            Some(Cow::Owned(format!("data:{};base64,{}", media.inner(), data.inner())))
        }
        _ => None,
    }
}
