//! Tools, and which of them may be called.

use crate::wire::ChatRequest;
use crate::wire::translate::json::{Array, Object};
use crate::wire::translate::losses::Losses;
use crate::wire::translate::value::{Value, get};

/// What a function takes that names no parameters.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Writes `tools` and `tool_choice`, from the newer members or from the deprecated `functions`.
pub(super) fn write(body: &mut Object<'_>, request: &ChatRequest, losses: &mut Losses) {
    let tools = get(request, "tools").filter(|tools| tools.elements().next().is_some());
    let functions = get(request, "functions").filter(|functions| functions.elements().next().is_some());
    if tools.is_none() && functions.is_none() {
        // The API refuses a choice among no tools.
        return;
    }
    body.array("tools", |out| {
        for (at, tool) in tools.iter().flat_map(|tools| tools.elements()).enumerate() {
            match tool.get("function").filter(|function| function.is_object()) {
                Some(function) => one(out, function, tool.get("cache_control")),
                None => {
                    let problem = format!("is a tool of type `{}`: this target takes functions only", tool.kind());
                    losses.refuse(format!("tools[{at}]"), problem);
                }
            }
        }
        for function in functions.iter().flat_map(|functions| functions.elements()) {
            one(out, function, None);
        }
    });
    choice(body, request, losses);
}

fn one(out: &mut Array<'_>, function: Value<'_>, cache_control: Option<Value<'_>>) {
    out.object(|tool| {
        tool.raw("name", function.get("name").map_or(r#""""#, Value::literal));
        tool.raw_if("description", function.get("description").map(Value::literal));
        tool.raw("input_schema", function.get("parameters").map_or(NO_PARAMETERS, Value::literal));
        if function.get("strict").is_some_and(|strict| strict.literal() == "true") {
            tool.raw("strict", "true");
        }
        let cache_control = cache_control.or_else(|| function.get("cache_control"));
        tool.raw_if("cache_control", cache_control.map(Value::literal));
    });
}

fn choice(body: &mut Object<'_>, request: &ChatRequest, losses: &mut Losses) {
    let said = get(request, "tool_choice").or_else(|| get(request, "function_call"));
    let one_at_a_time = get(request, "parallel_tool_calls").is_some_and(|parallel| parallel.literal() == "false");
    let name = said.and_then(|said| said.get("function").unwrap_or(said).get("name"));
    let kind = match said.map(Value::literal) {
        Some(r#""none""#) => return body.object("tool_choice", |choice| choice.text("type", "none")),
        Some(r#""required""#) => "any",
        Some(r#""auto""#) => "auto",
        None if one_at_a_time => "auto",
        None => return,
        Some(_) if name.is_some() => "tool",
        Some(_) => {
            losses.lose("tool_choice");
            "auto"
        }
    };
    body.object("tool_choice", |choice| {
        choice.text("type", kind);
        if kind == "tool" {
            choice.raw_if("name", name.map(Value::literal));
        }
        if one_at_a_time {
            choice.raw("disable_parallel_tool_use", "true");
        }
    });
}
