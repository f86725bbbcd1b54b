//! Tools, and which of them may be called.

use crate::wire::ChatRequest;
use crate::wire::translate::json::Object;
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::{Value, get};

/// Writes `tools`, `tool_choice` and `parallel_tool_calls`.
pub(super) fn write(body: &mut Object<'_>, request: &ChatRequest, losses: &mut Losses) {
    let Some(tools) = get(request, "tools").filter(|tools| tools.elements().next().is_some()) else {
        return;
    };
    body.array("tools", |out| {
        for (at, tool) in tools.elements().enumerate() {
            let kind = tool.kind();
            if !matches!(&*kind, "" | "custom") {
                let problem = format!("is a tool of type `{kind}`: this target takes tools with an input_schema only");
                losses.refuse(format!("tools[{at}]"), problem);
            }
            out.object(|out| {
                out.raw("type", r#""function""#);
                out.object("function", |function| {
                    function.raw("name", tool.get("name").map_or(r#""""#, Value::literal));
                    function.raw_if("description", tool.get("description").map(Value::literal));
                    function.raw_if("parameters", tool.get("input_schema").map(Value::literal));
                    function.raw_if("strict", tool.get("strict").map(Value::literal));
                });
            });
        }
    });
    if let Some(choice) = get(request, "tool_choice") {
        one(body, choice, losses);
    }
}

fn one(body: &mut Object<'_>, choice: Value<'_>, losses: &mut Losses) {
    match &*choice.kind() {
        "auto" => body.raw("tool_choice", r#""auto""#),
        "any" => body.raw("tool_choice", r#""required""#),
        "none" => body.raw("tool_choice", r#""none""#),
        "tool" => body.object("tool_choice", |out| {
            out.raw("type", r#""function""#);
            out.object("function", |function| {
                function.raw("name", choice.get("name").map_or(r#""""#, Value::literal));
            });
        }),
        _ => losses.lose("tool_choice"),
    }
    if choice.get("disable_parallel_tool_use").is_some_and(|one| one.literal() == "true") {
        body.raw("parallel_tool_calls", "false");
    }
}
