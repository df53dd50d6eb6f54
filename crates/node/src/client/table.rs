//! Answers as tables. Nothing is cut or wrapped: ids and hashes are there to be copied.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// A column: its title, and where its value is in an item, such as `leader.node`.
pub(super) type Column = (&'static str, &'static str);

/// One line for each item.
pub(super) fn lines(columns: &[Column], items: &[Value]) -> String {
    let mut table = empty();
    table.set_header(columns.iter().map(|(title, _)| *title));
    for item in items {
        table.add_row(columns.iter().map(|(_, path)| cell(at(item, path))));
    }
    table.to_string()
}

/// The items of a page, and how to go on.
pub(super) fn page(columns: &[Column], field: &str, page: &Value) -> String {
    let items = page[field].as_array().map(Vec::as_slice);
    let table = lines(columns, items.unwrap_or_default());
    match page["nextCursor"].as_str() {
        None => table,
        Some(cursor) => format!("{table}\nmore: --cursor {}", plain(cursor)),
    }
}

/// One line for each field of one item.
pub(super) fn card(columns: &[Column], item: &Value) -> String {
    let mut table = empty();
    for (title, path) in columns {
        table.add_row([(*title).to_owned(), cell(at(item, path))]);
    }
    table.to_string()
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn at<'a>(item: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(item, |value, name| &value[name])
}

/// A text in which nothing can move the cursor, colour the terminal or turn the direction of reading:
/// what clients have stored is shown to operators.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            plain.extend(c.escape_unicode());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// A value in one line; what is not there is a dash.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => plain(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_in_a_cell_reaches_the_terminal_as_a_command() {
        let hostile = "a\u{1b}[2J\u{9b}31m\r\n\u{7}\u{202e}b é 漢";
        let shown = r"a\u{1b}[2J\u{9b}31m\u{d}\u{a}\u{7}\u{202e}b é 漢";
        assert_eq!(cell(&json!(hostile)), shown);
        for value in [json!({ "k": hostile }), json!([hostile])] {
            assert!(!cell(&value).chars().any(char::is_control), "{value}");
        }
    }

    #[test]
    fn a_table_shows_nested_fields_and_dashes_for_what_is_not_there() {
        let items = [
            json!({"a": 1, "b": {"c": "x"}, "d": [1, 2]}),
            json!({"a": null, "b": null}),
        ];
        let table = lines(&[("A", "a"), ("C", "b.c"), ("D", "d")], &items);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .filter(|line| line.starts_with('│'))
            .map(|line| {
                line.split(['│', '┆'])
                    .map(str::trim)
                    .filter(|c| !c.is_empty())
                    .collect()
            })
            .collect();
        let expected = [
            vec!["A", "C", "D"],
            vec!["1", "x", "1, 2"],
            vec!["-", "-", "-"],
        ];
        assert_eq!(rows, expected, "{table}");
    }
}
